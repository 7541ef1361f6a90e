"""The result of evaluating a classifier, in a form to keep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, get_args

import numpy as np

from gnomon.evaluation.bootstrap import Comparison, interval, paired_bootstrap, resampled
from gnomon.evaluation.labels import (
    CalibrationBin,
    Decisions,
    LabelMeasure,
    LabelMetric,
    LabelRow,
    calibration_bins,
    label_rows,
)
from gnomon.evaluation.score import Score
from gnomon.files import json_value

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig:
    """Which scores to take of labels."""

    metrics: tuple[LabelMetric, ...] = ("accuracy", "macro_f1", "calibration_error")
    # Of many labels: those whose probability is at least this are given.
    threshold: float = 0.5
    # Bootstrap samples for the 95 % interval of each score and for comparisons, and their seed. 0
    # takes no intervals. Scores during training have none.
    resamples: int = 1000
    resample_seed: int = 12345

    def problems(self) -> list[str]:
        """Everything wrong with these values: the rule, the value seen and the mend."""
        found = []
        if not self.metrics:
            found.append("metrics must name at least one of accuracy, macro_f1, micro_f1")
        if unknown := sorted(set(self.metrics) - set(get_args(LabelMetric))):
            known = ", ".join(get_args(LabelMetric))
            found.append(f"metrics are among {known}, not {', '.join(unknown)}")
        if len(set(self.metrics)) < len(self.metrics):
            found.append(f"metrics must not repeat: {', '.join(self.metrics)}")
        if not 0 < self.threshold < 1:
            found.append(f"threshold must be between 0 and 1, not {self.threshold}")
        if self.resamples != 0 and not 40 <= self.resamples <= 1_000_000:
            found.append(
                f"resamples must be 0 (no intervals) or from 40 to 1,000,000, not {self.resamples}"
            )
        if not 0 <= self.resample_seed < 2**63:
            found.append(f"resample_seed must be 0 or more, below 2^63, not {self.resample_seed}")
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifiedLine:
    """One evaluated text: its labels, those that were given, how sure each was."""

    number: int
    text: str
    pair: str | None
    labels: tuple[str, ...]
    given: tuple[str, ...]
    confidence: tuple[float, ...]
    correct: bool
    cut: bool


@dataclass(frozen=True, kw_only=True)
class ClassificationReport:
    """Scores of a classifier on labelled texts, and every text.

    Attributes:
        scores: in the order of the configuration.
        baselines: by name ("always X", X the training text's most frequent label), their scores.
        labels: precision, recall and F1 of each label.
        confusion: how often label i (row) was taken for label j; None of many labels a text.
        calibration: confidence against accuracy, bin by bin.
        lines: one per text, in order.
        about: what else it takes to get these scores again.
        comparisons: by the name of another model, this one against it on the same texts.
    """

    scores: list[Score]
    baselines: dict[str, list[Score]]
    labels: list[LabelRow]
    confusion: list[list[int]] | None
    calibration: list[CalibrationBin]
    lines: list[ClassifiedLine]
    about: dict[str, Any] = field(default_factory=dict)
    comparisons: dict[str, list[Comparison]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Score:
        """The score of that name; KeyError where it was not taken."""
        for score in self.scores:
            if score.name == name:
                return score
        raise KeyError(name)

    def worst(self, count: int) -> list[ClassifiedLine]:
        """The wrong texts whose labels were given with most confidence."""
        wrong = [line for line in self.lines if not line.correct]
        return sorted(wrong, key=lambda line: -max(line.confidence, default=0.0))[:count]

    def to_json(self) -> str:
        """Strict JSON, readable, one line of it per text."""
        head = {
            "format_version": FORMAT_VERSION,
            "task": "classification",
            "about": self.about,
            "num_lines": len(self.lines),
            "scores": json_value(self.scores),
            "baselines": json_value(self.baselines),
            "labels": json_value(self.labels),
            "confusion": self.confusion,
            "calibration": json_value(self.calibration),
            "comparisons": json_value(self.comparisons),
        }
        text = json.dumps(head, ensure_ascii=False, allow_nan=False, indent=2)
        rows = (json.dumps(asdict(line), ensure_ascii=False) for line in self.lines)
        return (
            text.removesuffix("\n}") + ',\n  "lines": [\n    ' + ",\n    ".join(rows) + "\n  ]\n}\n"
        )


def label_scores(
    decisions: Decisions, config: ClassificationConfig, *, with_intervals: bool = False
) -> list[Score]:
    """The configured scores, with bootstrap intervals if asked for."""
    found = []
    for name in config.metrics:
        measure = LabelMeasure(name, decisions.num_labels)
        rows = measure.of(decisions)
        bounds = None
        if with_intervals and config.resamples:
            values = resampled(measure, rows, samples=config.resamples, seed=config.resample_seed)
            bounds = interval(values)
        found.append(measure.score(rows, bounds))
    return found


def classification_report(
    decisions: Decisions,
    lines: Sequence[ClassifiedLine],
    labels: Sequence[str],
    config: ClassificationConfig,
    *,
    baselines: Mapping[str, Decisions] | None = None,
    against: Mapping[str, Decisions] | None = None,
) -> ClassificationReport:
    """Score decisions, and others beside them on the same texts."""
    confusion = decisions.confusion()
    return ClassificationReport(
        scores=label_scores(decisions, config, with_intervals=True),
        baselines={name: label_scores(other, config) for name, other in (baselines or {}).items()},
        labels=label_rows(decisions, labels),
        confusion=None if confusion is None else confusion.tolist(),
        calibration=calibration_bins(decisions),
        lines=list(lines),
        comparisons={
            name: _compared(decisions, other, config) for name, other in (against or {}).items()
        },
    )


def _compared(
    decisions: Decisions, other: Decisions, config: ClassificationConfig
) -> list[Comparison]:
    found = []
    for name in config.metrics:
        measure = LabelMeasure(name, decisions.num_labels)
        found.append(
            paired_bootstrap(
                measure,
                measure.of(decisions),
                measure.of(other),
                samples=config.resamples or ClassificationConfig.resamples,
                seed=config.resample_seed,
            )
        )
    return found


def compared_reports(
    report: Mapping[str, Any], against: Mapping[str, Any], config: ClassificationConfig
) -> list[Comparison] | None:
    """Two stored reports (`to_json`) on the same texts; None where texts or labels differ.

    How well confidence fits is not compared: what was not given has none in a report.
    """
    names = [row["label"] for row in report["labels"]]
    lines, others = report["lines"], against["lines"]
    if names != [row["label"] for row in against["labels"]]:
        return None
    if [line["labels"] for line in lines] != [line["labels"] for line in others]:
        return None
    several = report["confusion"] is None
    metrics = tuple(name for name in config.metrics if name != "calibration_error")
    return _compared(
        _decisions_in(lines, names, several=several),
        _decisions_in(others, names, several=several),
        replace(config, metrics=metrics),
    )


def _decisions_in(
    lines: Sequence[Mapping[str, Any]], names: Sequence[str], *, several: bool
) -> Decisions:
    index = {name: number for number, name in enumerate(names)}
    gold, chosen, owners = [], [], []
    for owner, line in enumerate(lines):
        held, given = line["labels"], line["given"]
        if several:
            gold += [int(name in held) for name in names]
            chosen += [int(name in given) for name in names]
        else:
            gold += [index[name] for name in held]
            chosen += [index[name] for name in given]
        owners += [owner] * (len(names) if several else len(held))
    return Decisions(
        gold=np.array(gold, np.int64),
        chosen=np.array(chosen, np.int64),
        confidence=np.ones(len(gold)),
        owners=np.array(owners, np.int64),
        num_labels=len(names),
        num_texts=len(lines),
        subjects=np.tile(np.arange(len(names)), len(lines)) if several else None,
    )
