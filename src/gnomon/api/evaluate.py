"""Judge a model on text it was not trained on, and keep the result with the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gnomon.api.claim import read_run_recipe
from gnomon.api.load import load, model_folder
from gnomon.api.pairs import given_pairs
from gnomon.errors import DataError
from gnomon.evaluation import EvaluationConfig, EvaluationReport
from gnomon.files import write_atomically
from gnomon.recipes import Recipe
from gnomon.tasks import evaluate_translator
from gnomon.text import ParallelCorpus, open_corpora
from gnomon.training import RunFolder


def evaluate(
    model: str | Path,
    *,
    source: str | Path | None = None,
    reference: str | Path | None = None,
    data: str | Path | None = None,
    checkpoint: str = "best",
    device: str = "auto",
    baselines: Mapping[str, Sequence[str]] | None = None,
    batch_tokens: int = 4096,
    **search: Any,
) -> EvaluationReport:
    """Score a model; for a run the report is also stored under its `evaluations/`.

    Args:
        model, checkpoint, device: see `load`.
        source, reference: two files whose line i belong together.
        data: in place of the two, one file with source TAB reference. Where none of the three
            is given, a run's own test text is used, or its validation text if it has no other.
        baselines: by name, other translations of the same lines, scored beside.
        batch_tokens: padded source tokens decoded at once: memory and speed, not results.
        **search: fields of `SearchConfig` to change, for example `beam=1`.

    Raises:
        DataError: no text to judge on, or text that cannot be used.
        ModelError, RunError: see `load`.
    """
    folder = model_folder(model, checkpoint)
    run = _run_of(folder)
    recipe = None if run is None else read_run_recipe(run)
    corpus = _corpus(recipe, source, reference, data)
    translator = load(folder, device=device)
    report = evaluate_translator(
        translator,
        list(corpus.sources),
        list(corpus.targets),
        EvaluationConfig() if recipe is None else recipe.evaluation,
        baselines=baselines,
        batch_tokens=batch_tokens,
        **search,
    )
    about = {
        "model": str(folder),
        "files": [str(path) for path in corpus.files],
        "text": corpus.fingerprint,
        "search": asdict(translator.search_config(search)),
    }
    report = replace(report, about=about)
    if run is not None:
        key = hashlib.sha256(json.dumps([about["text"], about["search"]]).encode()).hexdigest()
        name = f"{folder.name}-{corpus.name}-{key[:8]}.json"
        write_atomically(run.path / "evaluations" / name, report.to_json())
    return report


def _corpus(
    recipe: Recipe | None,
    source: str | Path | None,
    reference: str | Path | None,
    data: str | Path | None,
) -> ParallelCorpus:
    if source is not None or reference is not None or data is not None:
        return given_pairs(source, reference, data)
    corpora = None if recipe is None else open_corpora(recipe.data)
    corpus = None if corpora is None else corpora.test or corpora.valid
    if corpus is None:
        raise DataError(
            "a model is judged on text with reference translations; there is none here",
            mend="give --src and --ref, or --data with source TAB reference",
        )
    return corpus


def _run_of(folder: Path) -> RunFolder | None:
    """The run whose checkpoint `folder` is, if it is one."""
    run = RunFolder(folder.resolve().parent.parent)
    return run if run.recipe_path.is_file() and folder.parent.name == "checkpoints" else None
