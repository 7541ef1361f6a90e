"""Labels of lines."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gnomon.api.lines.job import LineJob, LineWork, Made
from gnomon.api.load import load_for
from gnomon.errors import DataError, ModelError
from gnomon.tasks import Classification, Classifier
from gnomon.tasks.progress import Progress, silent


@dataclass(frozen=True, kw_only=True)
class ClassifyLines(LineJob):
    """Label each line; for a classifier of pairs two texts with a TAB between them.

    Args:
        threshold: see `Classifier.classify`.
    """

    VERB: ClassVar[str] = "classify"
    TASK: ClassVar[str] = "classification"
    DOING: ClassVar[str] = "classifying"
    KINDS: ClassVar[Mapping[str, str]] = {
        "cut": "texts are longer than the model reads: their end was left out"
    }
    ALWAYS: ClassVar[tuple[str, ...]] = ("cut",)

    threshold: float | None = None

    def settings(self) -> Mapping[str, Any]:
        """See `LineJob`."""
        return {"threshold": self.threshold, "json": self.as_json}

    def open(self) -> LineWork:
        """See `LineJob`; labels that could not be told apart in a line are refused."""
        classifier: Classifier = load_for(
            "classification", self.model, checkpoint=self.checkpoint, device=self.device
        )
        if not self.as_json:
            _check_separable(classifier)
        return _Work(self, classifier)


@dataclass(frozen=True)
class _Work:
    job: ClassifyLines
    classifier: Classifier

    def __call__(
        self, lines: Sequence[str], first: int, *, progress: Progress = silent, **beside: Any
    ) -> Iterator[Made]:
        job = self.job
        texts, pairs = _columns(lines, first, takes_pairs=self.classifier.takes_pairs)
        results = self.classifier.classify(
            texts, pairs, threshold=job.threshold, batch_tokens=job.batch_tokens, progress=progress
        )
        line_of = _as_json if job.as_json else _as_line
        for number, result in enumerate(results, first):
            note = ("cut", f"line {number}: {result.cut:,} tokens at its end were not read")
            yield Made(line_of(self.classifier, result), [note] if result.cut else [])

    def check(self) -> None:
        """See `LineWork`."""
        deque(self(["\t" if self.classifier.takes_pairs else ""], 1), maxlen=0)


def _columns(
    lines: Sequence[str], first: int, *, takes_pairs: bool
) -> tuple[list[str], list[str] | None]:
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
