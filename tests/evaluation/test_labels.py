"""Scores of labels against scikit-learn's, and by hand where it has none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    precision_recall_fscore_support,
)

from gnomon.evaluation.classification import (
    ClassificationConfig,
    ClassifiedLine,
    classification_report,
    compared_reports,
    label_scores,
)
from gnomon.evaluation.labels import NUM_BINS, Decisions, LabelMeasure, label_rows


def decisions(num_texts: int = 200, num_labels: int = 4, seed: int = 0) -> Decisions:
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, num_labels - 1, num_texts)  # the last label never stands
    chosen = np.where(rng.random(num_texts) < 0.6, gold, rng.integers(0, num_labels, num_texts))
    return Decisions(
        gold=gold,
        chosen=chosen,
        confidence=rng.uniform(0.25, 1, num_texts),
        owners=np.arange(num_texts),
        num_labels=num_labels,
        num_texts=num_texts,
    )


def several(num_texts: int = 100, num_labels: int = 3) -> tuple[Decisions, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 2, (num_texts, num_labels))
    chosen = np.where(rng.random(gold.shape) < 0.7, gold, 1 - gold)
    found = Decisions(
        gold=gold.ravel(),
        chosen=chosen.ravel(),
        confidence=rng.uniform(0.5, 1, gold.size),
        owners=np.repeat(np.arange(num_texts), num_labels),
        num_labels=num_labels,
        num_texts=num_texts,
        subjects=np.tile(np.arange(num_labels), num_texts),
    )
    return found, gold, chosen


def value(found: Decisions, name: str) -> float:
    measure = LabelMeasure(name, found.num_labels)  # type: ignore[arg-type]
    return measure.value(measure.of(found).sum(axis=0))


def test_one_label_a_text_as_scikit_learn_has_it() -> None:
    found = decisions()
    gold, chosen = found.gold, found.chosen
    assert value(found, "accuracy") == pytest.approx(100 * accuracy_score(gold, chosen))
    for average in ("macro", "micro"):
        expected = 100 * f1_score(gold, chosen, average=average, zero_division=0)
        assert value(found, f"{average}_f1") == pytest.approx(expected)
    names = ["a", "b", "c", "d"]
    table = precision_recall_fscore_support(gold, chosen, labels=range(4), zero_division=0)
    for place, row in enumerate(label_rows(found, names)):
        expected = [100 * table[kind][place] for kind in range(3)]
        assert [row.precision, row.recall, row.f1] == pytest.approx(expected)
        assert row.support == table[3][place]
        assert row.given == (chosen == place).sum()
    assert found.confusion().tolist() == confusion_matrix(gold, chosen, labels=range(4)).tolist()


def test_several_labels_as_scikit_learn_has_it() -> None:
    found, gold, chosen = several()
    assert value(found, "accuracy") == pytest.approx(100 * accuracy_score(gold, chosen))
    for average in ("macro", "micro"):
        expected = 100 * f1_score(gold, chosen, average=average)
        assert value(found, f"{average}_f1") == pytest.approx(expected)
    assert found.confusion() is None


def test_calibration_error_by_hand() -> None:
    found = decisions()
    right = found.gold == found.chosen
    bins = np.minimum((found.confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    total = 0.0
    for number in range(NUM_BINS):
        inside = bins == number
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - found.confidence[inside].mean())
    assert value(found, "calibration_error") == pytest.approx(100 * total)
    sure = Decisions(
        gold=np.zeros(10, int),
        chosen=np.array([0] * 7 + [1] * 3),
        confidence=np.ones(10),
        owners=np.arange(10),
        num_labels=2,
        num_texts=10,
    )
    assert value(sure, "calibration_error") == pytest.approx(30)


def test_labels_of_words_are_each_a_decision() -> None:
    found = Decisions(
        gold=np.array([0, 1, 1, 0]),
        chosen=np.array([0, 1, 0, 0]),
        confidence=np.ones(4),
        owners=np.array([0, 0, 1, 1]),
        num_labels=2,
        num_texts=3,  # one without words
    )
    assert value(found, "accuracy") == 75
    assert LabelMeasure("accuracy", 2).of(found).tolist() == [[2, 2], [1, 2], [0, 0]]


def test_a_report_compares_and_keeps_every_text() -> None:
    good, bad = decisions(), decisions()
    worse = Decisions(
        gold=bad.gold,
        chosen=np.zeros_like(bad.chosen),
        confidence=bad.confidence,
        owners=bad.owners,
        num_labels=4,
        num_texts=200,
    )
    lines = [
        ClassifiedLine(
            number=number + 1,
            text="t",
            pair=None,
            labels=(str(gold),),
            given=(str(chosen),),
            confidence=(sure,),
            correct=gold == chosen,
            cut=False,
        )
        for number, (gold, chosen, sure) in enumerate(
            zip(good.gold.tolist(), good.chosen.tolist(), good.confidence.tolist(), strict=True)
        )
    ]
    config = ClassificationConfig(resamples=100)
    report = classification_report(
        good, lines, list("abcd"), config, baselines={"zero": worse}, against={"zero": worse}
    )
    low, high = report["accuracy"].interval
    assert low < report["accuracy"].value < high
    assert report.comparisons["zero"][0].verdict == "better"
    assert report.baselines["zero"][0].value < report["accuracy"].value
    worst = report.worst(5)
    assert all(not line.correct for line in worst)
    assert worst[0].confidence == max(line.confidence for line in lines if not line.correct)
    written = json.loads(report.to_json())
    assert len(written["lines"]) == written["num_lines"] == 200
    assert written["confusion"] == good.confusion().tolist()
    assert [score.name for score in label_scores(good, config)] == list(config.metrics)


def test_stored_reports_are_compared_as_live_ones() -> None:
    for found in (decisions(), several(num_labels=3)[0]):
        other = replace(found, chosen=np.zeros_like(found.chosen))
        names = [str(number) for number in range(found.num_labels)]
        config = ClassificationConfig(metrics=("accuracy", "macro_f1"), resamples=50)
        live = classification_report(found, [], names, config, against={"x": other})
        stored = []
        for each in (found, other):
            lines = [
                {
                    "labels": labels_in(each, each.gold, text, names),
                    "given": labels_in(each, each.chosen, text, names),
                }
                for text in range(each.num_texts)
            ]
            confusion = None if each.subjects is not None else [[]]
            labels = [{"label": name} for name in names]
            stored.append({"labels": labels, "lines": lines, "confusion": confusion})
        assert compared_reports(stored[0], stored[1], config) == live.comparisons["x"]
        stored[1]["labels"] = [{"label": "z"}]
        assert compared_reports(stored[0], stored[1], config) is None


def labels_in(each: Decisions, values: np.ndarray, text: int, names: list[str]) -> list[str]:
    mine = each.owners == text
    if each.subjects is None:
        return [names[value] for value in values[mine]]
    return [names[label] for label in each.subjects[mine][values[mine] == 1]]
