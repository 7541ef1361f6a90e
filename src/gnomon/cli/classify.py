"""`gnomon classify`: labels of texts, one line out per line in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli import options
from gnomon.cli.line_flow import line_flow
from gnomon.cli.line_warnings import LineWarnings

if TYPE_CHECKING:
    from gnomon.tasks import Classification, Classifier

CHUNK = 1024  # texts read before they are classified, which sorts them by length
KINDS = {"cut": "texts are longer than the model reads: their end was left out"}


def classify(
    model: options.ModelArgument,
    input_: options.InputOption = None,
    output: options.OutputOption = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Of several labels: those at least so probable. Default: the model's."),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with probabilities.")
    ] = False,
    batch_tokens: options.BatchOption = 4096,
    checkpoint: options.CheckpointOption = "best",
    device: options.DeviceOption = "auto",
    progress: options.ProgressOption = None,
) -> None:
    """Label texts, one a line; for a classifier of pairs two with a TAB between them.

    Of several labels there are commas between them (a blank line: none holds), where words are
    labelled blanks, one label a word.
    """
    from gnomon import api

    classifier: Classifier = api.load_for(
        "classification", model, checkpoint=checkpoint, device=device
    )
    if not json_:
        _check_separable(classifier)
    warnings = LineWarnings(KINDS, always=("cut",))
    with line_flow(
        input_, output, size=CHUNK, doing="classifying", progress=progress, warnings=warnings
    ) as flow:
        for first, chunk in flow:
            texts, pairs = _columns(chunk, first, takes_pairs=classifier.takes_pairs)
            results = classifier.classify(
                texts, pairs, threshold=threshold, batch_tokens=batch_tokens, progress=flow.done
            )
            for number, result in enumerate(results, first):
                flow.write(_as_json(classifier, result) if json_ else _as_line(classifier, result))
                if result.cut:
                    warnings.add(
                        "cut", f"line {number}: {result.cut:,} tokens at its end were not read"
                    )


def _columns(
    lines: Sequence[str], first: int, *, takes_pairs: bool
) -> tuple[list[str], list[str] | None]:
    from gnomon.errors import DataError

    if not takes_pairs:
        return list(lines), None
    rows = [line.split("\t") for line in lines]
    for number, row in enumerate(rows, first):
        if len(row) != 2:
            raise DataError(
                "a classifier of pairs reads two texts a line with one TAB between them",
                seen=f"line {number}: {len(row) - 1} TABs",
            )
    return [row[0] for row in rows], [row[1] for row in rows]


def _check_separable(classifier: Classifier) -> None:
    """Labels of a text with commas between them can be told apart."""
    from gnomon.errors import ModelError

    if classifier.kind != "multi":
        return
    if odd := [label for label in classifier.labels if "," in label]:
        raise ModelError(
            "labels with commas between them must not hold commas themselves",
            seen=f"the label {odd[0]!r}",
            mend="give --json, where labels are a list",
        )


def _as_line(classifier: Classifier, result: Classification) -> str:
    return {"single": "", "multi": ",", "words": " "}[classifier.kind].join(result.labels)


def _as_json(classifier: Classifier, result: Classification) -> str:
    found: dict[str, Any] = {
        "label": result.labels[0] if classifier.kind == "single" else None,
        "labels": list(result.labels),
        "confidence": list(result.confidence),
        "cut": result.cut,
    }
    if classifier.kind == "single":
        del found["labels"]
        found["confidence"] = result.confidence[0]
    else:
        del found["label"]
    if result.probabilities is not None:
        found["probabilities"] = dict(zip(classifier.labels, result.probabilities, strict=True))
    return json.dumps(found, ensure_ascii=False)
