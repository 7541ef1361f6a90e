"""Judge a model on text it was not trained on, and keep the result with the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gnomon.api.claim import cache_beside, read_run_recipe
from gnomon.api.load import load_for, model_folder, run_of
from gnomon.api.pairs import given_pairs
from gnomon.api.settings import changed_settings
from gnomon.decoding import Combination
from gnomon.errors import DataError
from gnomon.evaluation import EvaluationConfig, EvaluationReport, evaluate_translations
from gnomon.files import write_atomically
from gnomon.recipes import TranslationRecipe
from gnomon.recipes.tasks import translation
from gnomon.tasks import add_scores_to_card, evaluate_translator
from gnomon.tasks.progress import Stages, unseen
from gnomon.tasks.tags import Tags
from gnomon.text import Pair, ParallelCorpus, open_corpora, open_split, read_lines
from gnomon.training import RunFolder


def evaluate(
    model: str | Path,
    *,
    source: str | Path | None = None,
    reference: str | Path | None = None,
    data: str | Path | None = None,
    source_field: str | None = None,
    target_field: str | None = None,
    checkpoint: str = "best",
    device: str = "auto",
    ensemble: Sequence[str | Path] = (),
    combination: Combination = "mean",
    baselines: Mapping[str, Sequence[str]] | None = None,
    against: Sequence[str | Path] = (),
    with_robustness: bool = False,
    settings: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    batch_tokens: int = 4096,
    progress: Stages = unseen,
    **search: Any,
) -> EvaluationReport:
    """Score a model; for a run the report is also stored under its `evaluations/`.

    The scores are also written on the model folder's card (README.md).

    Args:
        model, checkpoint, device, ensemble, combination: see `load`.
        source, reference: two files whose line i belong together.
        data: in place of the two, one file of pairs: TSV, JSON lines or Parquet. Where none of the
            three is given, a run's own test text is used, or else its validation text.
        source_field, target_field: of `data`: see `given_pairs`.
        baselines: by name, other translations of the same lines, scored beside.
        against: models or files of translations to test for a significant difference; models
            translate with their own search settings, `search` changed alike.
        with_robustness: also translate the sources in capitals, with typos, and so on.
        settings: fields of `EvaluationConfig` to change, for example {"metrics": ("ter",)}; the
            others are the run's, or the defaults for a model folder.
        tags: put in front of every given source; of a run's own text, judge only the pairs with
            these tags (without, all of them, each with its own).
        batch_tokens: padded source tokens decoded at once: memory and speed, not results.
        progress: is told what begins, and over how many lines; gives what is told of these.
        **search: fields of `SearchConfig` to change, for example `beam=1`.

    Raises:
        DataError: no text to judge on, or text that cannot be used.
        ModelError, RunError: see `load`.
        RecipeError: a setting is unknown or out of range.
    """
    folder = model_folder(model, checkpoint)
    run = run_of(folder)
    recipe = None if run is None else translation(read_run_recipe(run))
    config = changed_settings(EvaluationConfig() if recipe is None else recipe.evaluation, settings)
    own = (source, reference, data, source_field, target_field)
    given = any(value is not None for value in own)
    if given:
        corpus = given_pairs(
            source,
            reference,
            data,
            source_field=source_field,
            target_field=target_field,
            model=folder,
        )
    else:
        corpus = _own_text(recipe, run)
    pairs = list(corpus.pairs())
    if tags and not given:
        pairs = _with_tags(pairs, tuple(tags), corpus)
    every = [tuple(tags) if given else pair.tags for pair in pairs]
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    others = {
        str(other): _translations(other, sources, device, batch_tokens, every, progress, search)
        for other in against
    }
    members = [model_folder(each, checkpoint) for each in ensemble]
    translator = load_for(
        "translation", folder, device=device, ensemble=members, combination=combination
    )
    report = evaluate_translator(
        translator,
        sources,
        references,
        config,
        baselines=baselines,
        against=others,
        with_robustness=with_robustness,
        tags=every,
        batch_tokens=batch_tokens,
        progress=progress,
        **search,
    )
    about = {
        "model": str(folder),
        "files": [str(path) for path in corpus.files],
        "split": corpus.name,
        "text": corpus.fingerprint,
        "search": asdict(translator.search_config(search)),
        "evaluation": asdict(config),
        **({"tags": list(tags)} if tags else {}),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if members:
        about |= {"ensemble": [str(each) for each in members], "combination": combination}
    report = replace(report, about=about)
    if run is not None:
        path = run.path / "evaluations" / _report_name(folder, corpus, about)
        write_atomically(path, report.to_json())
        report = replace(report, about=about | {"report": str(path)})
    if not members:
        add_scores_to_card(folder, report)
    return report


def evaluate_files(
    hypotheses: str | Path,
    reference: str | Path,
    *,
    source: str | Path | None = None,
    against: Sequence[str | Path] = (),
    settings: Mapping[str, Any] | None = None,
) -> EvaluationReport:
    """Score a file of translations, whoever made them.

    Args:
        hypotheses, reference: two files whose line i belong together.
        source: what was translated, for the tables by length.
        against: files of other translations to test for a significant difference.
        settings: fields of `EvaluationConfig` to change.

    Raises:
        DataError: a file cannot be read, or line counts differ.
        RecipeError: a setting is unknown or out of range.
    """
    files = [Path(hypotheses), Path(reference), *([] if source is None else [Path(source)])]
    report = evaluate_translations(
        _lines(hypotheses),
        _lines(reference),
        changed_settings(EvaluationConfig(), settings),
        sources=None if source is None else _lines(source),
        against={str(other): _lines(other) for other in against},
    )
    return replace(report, about={"files": [str(path) for path in files]})


def _translations(
    other: str | Path,
    sources: Sequence[str],
    device: str,
    batch_tokens: int,
    tags: Tags,
    progress: Stages,
    search: Mapping[str, Any],
) -> list[str]:
    """The lines of a file, or the sources as a model translates them."""
    if Path(other).is_file():
        return _lines(other)
    translator = load_for("translation", other, device=device)
    known = tags if translator.tokenizers.source.tags else ()
    done = progress(f"translating by {other}", len(sources))
    found = translator.translate(
        sources, tags=known, batch_tokens=batch_tokens, progress=done, **search
    )
    return [translation.text for translation in found]


def _lines(path: str | Path) -> list[str]:
    return list(read_lines(Path(path)))


def _report_name(folder: Path, corpus: ParallelCorpus, about: Mapping[str, Any]) -> str:
    """The same for the same checkpoint, text, search and metrics; other evaluations are kept."""
    parts = [about["text"], about["search"], about["evaluation"], *about.get("ensemble", ())]
    parts += about.get("tags", [])
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{folder.name}-{corpus.name}-{key[:8]}.json"


def _own_text(recipe: TranslationRecipe | None, run: RunFolder | None) -> ParallelCorpus:
    """A run's test text, or else its validation text; what is not judged is not read."""
    corpus = None
    if recipe is not None and run is not None:
        data = recipe.data
        corpus = open_split(data, "test") or open_split(data, "valid")
        if corpus is None and data.split("train"):
            corpus = open_corpora(data, cache_beside(run.path)).valid
    if corpus is None:
        raise DataError(
            "a model is judged on text with reference translations; there is none here",
            mend="give --src and --ref, or --data with source TAB reference",
        )
    return corpus


def _with_tags(pairs: list[Pair], tags: tuple[str, ...], corpus: ParallelCorpus) -> list[Pair]:
    if chosen := [pair for pair in pairs if pair.tags == tags]:
        return chosen
    raise DataError(
        f"the run's {corpus.name} text must hold sources with these tags",
        seen=" ".join(tags),
        mend="tags there: " + "; ".join(" ".join(some) or "none" for some in corpus.tag_sets),
    )
