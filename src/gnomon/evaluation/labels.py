"""How good predicted labels are: accuracy, F1, calibration, as sums over texts.

F1 of a label is 2·tp / (2·tp + fp + fn); macro-F1 is its mean over the labels that occur in one of
the columns, as scikit-learn's `f1_score` has it. Like every measure these are statistics of each
text and a function of their sum, so that intervals and comparisons come with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.evaluation.measure import Measure, Rows

LabelMetric = Literal["accuracy", "macro_f1", "micro_f1", "calibration_error"]
NUM_BINS = 15  # Guo et al. 2017


@dataclass(frozen=True, eq=False)
class Decisions:
    """What was decided, of all texts one after the other.

    One decision is a text's label, a word's label, or (of many labels) whether a label holds.

    Attributes:
        gold, chosen: int64 [num_decisions], indices of labels; of many labels 0 or 1.
        confidence: float64 [num_decisions], the probability of what was chosen.
        owners: int64 [num_decisions], the text it belongs to.
        subjects: of many labels, int64 [num_decisions], which label it is about; else None.
        num_labels: how many labels there are.
        num_texts: how many texts.
    """

    gold: NDArray[np.int64]
    chosen: NDArray[np.int64]
    confidence: NDArray[np.float64]
    owners: NDArray[np.int64]
    num_labels: int
    num_texts: int
    subjects: NDArray[np.int64] | None = None

    def counts(self) -> NDArray[np.int64]:
        """Of each label: true positives, false positives, false negatives, [num_labels, 3]."""
        found: NDArray[np.int64] = self._counted(np.zeros_like(self.owners), 1)[0]
        return found

    def counts_by_text(self) -> NDArray[np.int64]:
        """The same of each text, [num_texts, num_labels, 3]."""
        return self._counted(self.owners, self.num_texts)

    def _counted(self, owners: NDArray[np.int64], num_owners: int) -> NDArray[np.int64]:
        right = self.gold == self.chosen
        kinds: list[tuple[NDArray[np.int64], NDArray[np.bool_]]]
        if self.subjects is not None:
            about = self.subjects
            kinds = [
                (about, right & (self.gold == 1)),
                (about, ~right & (self.chosen == 1)),
                (about, ~right & (self.gold == 1)),
            ]
        else:
            kinds = [(self.gold, right), (self.chosen, ~right), (self.gold, ~right)]
        size = num_owners * self.num_labels
        found = [
            np.bincount(owners[which] * self.num_labels + labels[which], minlength=size)
            for labels, which in kinds
        ]
        return np.stack(found, axis=-1).reshape(num_owners, self.num_labels, 3)

    def confusion(self) -> NDArray[np.int64] | None:
        """How often label i was taken for label j, [num_labels, num_labels].

        None where a text may have several: none of them is taken for another.
        """
        if self.subjects is not None:
            return None
        places = self.gold * self.num_labels + self.chosen
        found = np.bincount(places, minlength=self.num_labels**2)
        return found.reshape(self.num_labels, self.num_labels)


class LabelMeasure(Measure):
    """A measure of decisions; its statistics are made from `Decisions`."""

    def __init__(self, name: LabelMetric, num_labels: int) -> None:
        self.name = name
        self.num_labels = num_labels
        self.higher_is_better = name != "calibration_error"

    def of(self, decisions: Decisions) -> Rows:
        """Statistics of each text, [num_texts, k].

        Raises:
            DataError: there are none.
        """
        if not decisions.num_texts:
            raise DataError("labels are judged on texts; there are none")
        if self.name in ("macro_f1", "micro_f1"):
            return decisions.counts_by_text().reshape(decisions.num_texts, -1).astype(np.float64)
        owners, count = decisions.owners, decisions.num_texts
        right = decisions.gold == decisions.chosen
        if self.name == "accuracy":
            hits = np.bincount(owners, right, count)
            total = np.bincount(owners, minlength=count)
            if decisions.subjects is not None:  # all labels of a text must be right
                hits, total = hits == total, np.ones_like(total)
            return np.stack([hits, total], axis=-1).astype(np.float64)
        bins = np.minimum((decisions.confidence * NUM_BINS).astype(np.int64), NUM_BINS - 1)
        places, size = owners * NUM_BINS + bins, count * NUM_BINS
        found = [
            np.bincount(places, weights, size)
            for weights in (right, decisions.confidence, np.ones(len(right)))
        ]
        return np.stack(found, axis=-1).reshape(count, -1).astype(np.float64)

    def value(self, sums: Rows) -> float:
        """Accuracy and F1 from 0 to 100; the calibration error likewise."""
        if self.name == "accuracy":
            return float(100 * sums[0] / max(1.0, sums[1]))
        if self.name == "calibration_error":
            right, confidence, count = sums.reshape(NUM_BINS, 3).T
            return float(100 * np.abs(right - confidence).sum() / max(1.0, count.sum()))
        counts = sums.reshape(self.num_labels, 3)
        if self.name == "micro_f1":
            return float(100 * _f1(counts.sum(axis=0, keepdims=True))[0])
        occurs = counts.sum(axis=1) > 0
        return float(100 * _f1(counts[occurs]).mean()) if occurs.any() else 0.0

    def details(self, sums: Rows) -> str:
        """Right and all, for accuracy."""
        if self.name == "accuracy":
            return f"{sums[0]:,.0f} of {sums[1]:,.0f}"
        return ""

    def signature(self) -> str:
        """What it is taken over."""
        if self.name == "calibration_error":
            return f"bins:{NUM_BINS}|of:chosen"
        return f"labels:{self.num_labels}"


def _f1(counts: Rows) -> Rows:
    hits, wrong, missed = counts.T
    found: Rows = 2 * hits / np.maximum(2 * hits + wrong + missed, 1)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelRow:
    """How one label fared; precision, recall and F1 from 0 to 100.

    `support` counts how often it is right to give the label, `given` how often it was given.
    """

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    given: int


def label_rows(decisions: Decisions, labels: Sequence[str]) -> list[LabelRow]:
    """One row a label, in their order."""
    counts = decisions.counts()
    found = []
    for label, (hits, wrong, missed), f1 in zip(
        labels, counts.tolist(), _f1(counts.astype(np.float64)), strict=True
    ):
        found.append(
            LabelRow(
                label=label,
                precision=100 * hits / max(1, hits + wrong),
                recall=100 * hits / max(1, hits + missed),
                f1=100 * float(f1),
                support=hits + missed,
                given=hits + wrong,
            )
        )
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationBin:
    """Decisions of like confidence: how sure they were on average, and how often right, 0 to 1."""

    count: int
    confidence: float
    accuracy: float


def calibration_bins(decisions: Decisions) -> list[CalibrationBin]:
    """The bins that hold decisions, least confident first."""
    measure = LabelMeasure("calibration_error", decisions.num_labels)
    sums = measure.of(decisions).sum(axis=0).reshape(NUM_BINS, 3)
    return [
        CalibrationBin(count=int(count), confidence=confidence / count, accuracy=right / count)
        for right, confidence, count in sums.tolist()
        if count
    ]
