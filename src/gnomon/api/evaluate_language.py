"""Judge a language model on text, and keep the result with the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gnomon.api.claim import read_run_recipe
from gnomon.api.load import load_for, model_folder, run_of
from gnomon.errors import DataError, RecipeError
from gnomon.evaluation.language import LanguageReport, language_scores, position_rows
from gnomon.evaluation.ngrams import NGrams
from gnomon.evaluation.score import Score
from gnomon.files import write_atomically
from gnomon.recipes import LanguageModelRecipe
from gnomon.tasks import LanguageModel
from gnomon.tasks.language_scoring import PositionLosses, losses_by_position
from gnomon.tasks.progress import Progress, Stages, unseen
from gnomon.text.document_files import DocumentsConfig, DocumentSource, open_documents
from gnomon.text.vocabulary import Vocabulary

LONGEST = 1024  # tokens in view of a model that does not say how many it was trained with


def evaluate_language_model(
    model: str | Path,
    *,
    data: str | Path | None = None,
    documents_are: str | None = None,
    field: str | None = None,
    length: int | None = None,
    stride: int | None = None,
    against: Sequence[str | Path] = (),
    ngrams: int = 0,
    checkpoint: str = "best",
    device: str = "auto",
    batch_tokens: int = 4096,
    progress: Stages = unseen,
) -> LanguageReport:
    """Loss of a language model, by how much stands before; a run keeps it in `evaluations/`.

    Args:
        model, checkpoint, device: see `load`.
        data: text; without, a run's own test text, or else its validation text.
        documents_are: what in a plain text is one document; default as in the run, or a line.
        field: of JSON lines and Parquet, likewise.
        length: tokens in view; default what the model saw at once in training.
        stride: from one window to the next; default `length`, so that none overlap.
        against: further language models, whose scores stand beside.
        ngrams: put n-grams of up to so many tokens beside, counted in the run's training text,
            which is held in memory for it; 0: none.
        batch_tokens: tokens read at once: memory and speed, not results.
        progress: is told what begins.

    Raises:
        DataError: no text to judge on, or text that cannot be used.
        ModelError, RunError: see `load`.
        RecipeError: lengths that the model does not reach, or that leave tokens out.
    """
    folder = model_folder(model, checkpoint)
    run = run_of(folder)
    recipe = None if run is None else read_run_recipe(run)
    if recipe is not None and not isinstance(recipe, LanguageModelRecipe):
        raise RecipeError("the run must be a language model's", seen=recipe.task)
    found: LanguageModel = load_for("language_model", folder, device=device)
    source = _source(recipe, data, documents_are, field)
    length = length or found.context or min(found.reach or LONGEST, LONGEST)
    stride = stride or length

    def judged(each: LanguageModel, done: Progress) -> tuple[list[Score], PositionLosses]:
        losses = losses_by_position(each, source, length, stride, batch_tokens, done)
        protocol = {
            "length": length,
            "stride": stride,
            "eos": "yes",
            "tok": each.vocabulary.fingerprint[:12],
        }
        scores = language_scores(
            float(losses.sums.sum()),
            int(losses.counts.sum()),
            characters=losses.characters,
            num_bytes=losses.bytes,
            protocol=protocol,
        )
        return scores, losses

    scores, losses = judged(found, progress("judging", 0))
    others = {
        str(other): judged(
            load_for("language_model", other, device=device), progress(f"judging {other}", 0)
        )[0]
        for other in against
    }
    if ngrams:
        progress(f"counting {ngrams}-grams", 0)
        counted = _counted(recipe, found.vocabulary, source, ngrams)
        others[f"{ngrams}-grams"] = language_scores(
            *counted,
            characters=losses.characters,
            num_bytes=losses.bytes,
            protocol={
                "order": ngrams,
                "smooth": "kneser-ney",
                "eos": "yes",
                "tok": found.vocabulary.fingerprint[:12],
            },
        )
    about = {
        "model": str(folder),
        "files": [str(file) for file in source.files[:100]],
        "split": source.name,
        "text": source.fingerprint,
        "evaluation": {"length": length, "stride": stride},
        "trained_with": found.context,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    rows = position_rows(losses.sums.tolist(), losses.counts.tolist())
    report = LanguageReport(scores, rows, losses.documents, about, others)
    if run is not None:
        key = hashlib.sha256(json.dumps([about["text"], length, stride]).encode()).hexdigest()
        path = run.path / "evaluations" / f"{folder.name}-{source.name}-{key[:8]}.json"
        write_atomically(path, report.to_json())
        report = replace(report, about=about | {"report": str(path)})
    return report


def _counted(
    recipe: LanguageModelRecipe | None, vocabulary: Vocabulary, source: DocumentSource, order: int
) -> tuple[float, int]:
    """What n-grams lose on the documents in nats, and over how many tokens."""
    if recipe is None:
        raise DataError(
            "n-grams are counted in the text that the model was trained on, which a run knows",
            mend="name the run",
        )
    train, _ = open_documents(recipe.data)
    size, end = vocabulary.vocab_size, vocabulary.end_id
    model = NGrams(vocabulary.encode(list(train)), size, end, order)
    return model.nll(vocabulary.encode(list(source)))


def _source(
    recipe: LanguageModelRecipe | None,
    data: str | Path | None,
    documents_are: str | None,
    field: str | None,
) -> DocumentSource:
    base = DocumentsConfig() if recipe is None else recipe.data
    changes = {"documents_are": documents_are, "field": field}
    given = {name: value for name, value in changes.items() if value is not None}
    if documents_are not in (None, "lines", "paragraphs", "files"):
        raise RecipeError("documents are lines, paragraphs or files", seen=documents_are)
    config = replace(base, **given)  # type: ignore[arg-type]
    if data is not None:
        return DocumentSource(config, "given", data)
    if recipe is not None:
        if config.test is not None:
            return DocumentSource(config, "test", config.test)
        valid = open_documents(config)[1]
        if valid is not None:
            return valid
    raise DataError("a language model is judged on text; there is none", mend="give --data FILE")
