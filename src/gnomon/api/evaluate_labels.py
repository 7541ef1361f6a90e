"""Judge a classifier on labelled texts, and keep the result with the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.api.claim import read_run_recipe
from gnomon.api.load import load_for, model_folder, run_of
from gnomon.api.settings import changed_settings
from gnomon.errors import DataError, RecipeError
from gnomon.evaluation.classification import (
    ClassificationConfig,
    ClassificationReport,
    ClassifiedLine,
    classification_report,
)
from gnomon.evaluation.labels import Decisions
from gnomon.files import write_atomically
from gnomon.recipes import ClassificationRecipe
from gnomon.tasks import Classifier
from gnomon.tasks.finite import check_finite
from gnomon.tasks.label_rows import NO_LABEL, LabelRow
from gnomon.tasks.progress import Stages, unseen
from gnomon.text.labelled import (
    LabelledDataConfig,
    LabelledText,
    check_labels,
    open_labelled,
    read_labelled,
)


def evaluate_classifier(
    model: str | Path,
    *,
    data: str | Path | None = None,
    columns: Mapping[str, str | None] | None = None,
    checkpoint: str = "best",
    device: str = "auto",
    against: Sequence[str | Path] = (),
    settings: Mapping[str, Any] | None = None,
    baselines: Mapping[str, Sequence[Sequence[str]]] | None = None,
    batch_tokens: int = 4096,
    progress: Stages = unseen,
) -> ClassificationReport:
    """Score a classifier; for a run the report is also stored under its `evaluations/`.

    Args:
        model, checkpoint, device: see `load`.
        data: labelled texts; without, a run's own test text, or else its validation text.
        columns: of `data`: "text", "pair", "label", "format"; others are the run's.
        against: further classifiers with the same labels, to test for a significant difference.
        settings: fields of `ClassificationConfig` to change.
        baselines: by name, the labels that something else gave the same texts, scored beside.
        batch_tokens: padded tokens at once: memory and speed, not results.
        progress: is told what begins, and over how many texts.

    Raises:
        DataError: no text to judge on, text that cannot be used, or labels that the model lacks.
        ModelError, RunError: see `load`.
        RecipeError: a setting is unknown or out of range, or other labels in `against`.
    """
    folder = model_folder(model, checkpoint)
    run = run_of(folder)
    recipe = None if run is None else read_run_recipe(run)
    if recipe is not None and not isinstance(recipe, ClassificationRecipe):
        raise RecipeError(
            "the run must be a classifier's",
            seen=recipe.task,
            mend="what a detector was judged by stands in the run's metrics.jsonl (gnomon runs); "
            "fine-tune it to judge labels of yours",
        )
    base = ClassificationConfig() if recipe is None else recipe.evaluation
    classifier: Classifier = load_for("classification", folder, device=device)
    if recipe is None:
        base = replace(base, threshold=classifier.threshold)
    config = changed_settings(base, settings)
    layout = _layout(classifier, recipe, columns)
    text = _own_text(recipe) if data is None else read_labelled(layout, "given", data)
    check_labels(text, classifier.labels)
    others = {
        str(other): _compared(classifier, other, text, config, device, batch_tokens, progress)
        for other in against
    }
    rows = classifier.row_maker.rows(text.examples)
    done = progress("classifying", len(text.examples))
    logits = classifier.logits(rows, batch_tokens, done, len(text.examples))
    check_finite(logits, "logits")
    decisions = classifier.decisions(rows, logits, len(text.examples), config.threshold)
    report = classification_report(
        decisions,
        _lines(classifier, text, rows, decisions),
        classifier.labels,
        config,
        baselines=_baselines(classifier, decisions)
        | {
            name: _given_by(classifier, text, labels, decisions)
            for name, labels in (baselines or {}).items()
        },
        against=others,
    )
    about = {
        "model": str(folder),
        "files": [str(text.path)],
        "split": text.name,
        "text": text.fingerprint,
        "evaluation": asdict(config),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    report = replace(report, about=about)
    if run is not None:
        key = hashlib.sha256(json.dumps([about["text"], about["evaluation"]]).encode()).hexdigest()
        path = run.path / "evaluations" / f"{folder.name}-{text.name}-{key[:8]}.json"
        write_atomically(path, report.to_json())
        report = replace(report, about=about | {"report": str(path)})
    return report


def _layout(
    classifier: Classifier,
    recipe: ClassificationRecipe | None,
    columns: Mapping[str, str | None] | None,
) -> LabelledDataConfig:
    """How a given file is read: as the run's own text, unless told otherwise."""
    base = LabelledDataConfig() if recipe is None else recipe.data
    columns = columns or {}
    given: dict[str, Any] = {name: value for name, value in columns.items() if value is not None}
    if recipe is None and classifier.takes_pairs and "pair" not in given:
        given["pair"] = "pair"
    layout = replace(base, labels_are=classifier.kind, labels=classifier.labels, **given)
    if problems := layout.problems():
        raise RecipeError("the columns must fit together", seen="; ".join(problems))
    if (layout.pair is not None) != classifier.takes_pairs:
        raise RecipeError(
            "a classifier of pairs needs a second text, one of single texts takes none",
            seen=f"column of the second text: {layout.pair or 'none'}",
        )
    return layout


def _own_text(recipe: ClassificationRecipe | None) -> LabelledText:
    """A run's test text, or else its validation text."""
    if recipe is not None:
        data = recipe.data
        if data.test is not None:
            return read_labelled(data, "test", data.test)
        if data.valid is not None:
            return read_labelled(data, "valid", data.valid)
        if data.train is not None and (held_out := open_labelled(data).valid) is not None:
            return held_out
    raise DataError(
        "a classifier is judged on labelled texts; there are none here", mend="give --data FILE"
    )


def _compared(
    classifier: Classifier,
    other: str | Path,
    text: LabelledText,
    config: ClassificationConfig,
    device: str,
    batch_tokens: int,
    progress: Stages,
) -> Decisions:
    found: Classifier = load_for("classification", other, device=device)
    if found.labels != classifier.labels or found.kind != classifier.kind:
        raise RecipeError(
            "classifiers are compared on the same labels",
            seen=f"{other}: {', '.join(found.labels[:12])}",
        )
    rows = found.row_maker.rows(text.examples)
    done = progress(f"classifying by {other}", len(text.examples))
    logits = found.logits(rows, batch_tokens, done, len(text.examples))
    return found.decisions(rows, logits, len(text.examples), config.threshold)


def _baselines(classifier: Classifier, decisions: Decisions) -> dict[str, Decisions]:
    """What the most frequent label of the training text would reach."""
    counts, labels = classifier.label_counts, classifier.labels
    if classifier.kind == "multi" or counts is None or not any(counts):
        return {}
    label = min(labels, key=lambda label: (-counts[labels.index(label)], label))
    same = np.full_like(decisions.gold, labels.index(label))
    sure = np.ones_like(decisions.confidence)
    return {f"always {label}": replace(decisions, chosen=same, confidence=sure)}


def _given_by(
    classifier: Classifier,
    text: LabelledText,
    labels: Sequence[Sequence[str]],
    decisions: Decisions,
) -> Decisions:
    """Other labels of the same texts, each given with full confidence."""
    given = [
        replace(one, labels=tuple(some)) for one, some in zip(text.examples, labels, strict=True)
    ]
    check_labels(replace(text, examples=given), classifier.labels)
    rows = classifier.row_maker.rows(given)
    chosen = [index for row in rows for index in row.labels if index != NO_LABEL]
    sure = np.ones_like(decisions.confidence)
    return replace(decisions, chosen=np.array(chosen, np.int64), confidence=sure)


def _lines(
    classifier: Classifier, text: LabelledText, rows: Sequence[LabelRow], decisions: Decisions
) -> list[ClassifiedLine]:
    given: list[list[str]] = [[] for _ in text.examples]
    sure: list[list[float]] = [[] for _ in text.examples]
    right = np.ones(len(text.examples), bool)
    subjects = decisions.subjects
    for place, (owner, gold, chosen, confidence) in enumerate(
        zip(
            decisions.owners.tolist(),
            decisions.gold.tolist(),
            decisions.chosen.tolist(),
            decisions.confidence.tolist(),
            strict=True,
        )
    ):
        right[owner] &= gold == chosen
        if subjects is None:
            given[owner].append(classifier.labels[chosen])
            sure[owner].append(confidence)
        elif chosen:
            given[owner].append(classifier.labels[int(subjects[place])])
            sure[owner].append(confidence)
    cut = {row.text for row in rows if row.cut}
    return [
        ClassifiedLine(
            number=one.row,
            text=one.text,
            pair=one.pair,
            labels=one.labels,
            given=tuple(given[place]),
            confidence=tuple(sure[place]),
            correct=bool(right[place]),
            cut=place in cut,
        )
        for place, one in enumerate(text.examples)
    ]
