"""Intervals and paired tests against sacreBLEU's own, and by hand."""

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from gnomon.errors import DataError
from gnomon.evaluation import EvaluationConfig, evaluate_translations, measures_of, paired_bootstrap
from gnomon.evaluation.bootstrap import interval, resampled

WORDS = ["the", "cat", "dog", "house", "tree", "runs", "is", "blue", "big", "a", "in", "of"]


@pytest.fixture(scope="module")
def systems():
    rng = random.Random(0)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(3, 15))) for _ in range(120)]

    def noisy(share):
        return [
            " ".join(rng.choice(WORDS) if rng.random() < share else word for word in line.split())
            for line in references
        ]

    return references, noisy(0.25), noisy(0.35)


def test_equals_sacrebleu(systems):
    references, ours, theirs = systems
    metrics = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER(case_sensitive=True)}
    _, expected = PairedTest(
        [("theirs", theirs), ("ours", ours)], metrics, [references], test_type="bs", n_samples=200
    )()
    by_name = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
    for measure in measures_of(EvaluationConfig(metrics=("bleu", "chrf", "ter")), references):
        rows, other = measure.rows(ours, references), measure.rows(theirs, references)
        comparison = paired_bootstrap(measure, rows, other, samples=200)
        base, system = expected[by_name[measure.name]]
        assert comparison.value == pytest.approx(system.score, abs=1e-9)
        assert comparison.against == pytest.approx(base.score, abs=1e-9)
        assert comparison.p_value == pytest.approx(system.p_value, abs=1e-12)
        low, high = interval(resampled(measure, rows, samples=200, seed=12345))
        # sacreBLEU sums in float32.
        assert (high - low) / 2 == pytest.approx(system.ci, abs=1e-3)


def test_directions_and_no_difference(systems):
    references, ours, theirs = systems
    config = EvaluationConfig(metrics=("bleu", "ter"))
    report = evaluate_translations(
        ours, references, config, against={"worse": theirs, "same": ours}
    )
    for one in report.comparisons["worse"]:
        assert one.verdict == "better", one
        low, high = one.interval
        assert (low > 0) == (one.name == "bleu")
        assert low < one.value - one.against < high
    for one in report.comparisons["same"]:
        assert (one.verdict, one.interval) == ("unclear", (0, 0))
        assert one.p_value > 0.5
    assert "bs:1000|seed:12345" in report.comparisons["same"][0].signature


def test_the_seed_decides(systems):
    references, ours, _ = systems
    (measure,) = measures_of(EvaluationConfig(metrics=("chrf",)), references)
    rows = measure.rows(ours, references)
    first = resampled(measure, rows, samples=50, seed=1)
    assert np.array_equal(first, resampled(measure, rows, samples=50, seed=1))
    assert not np.array_equal(first, resampled(measure, rows, samples=50, seed=2))


def test_interval_by_hand():
    """Of 80 values 2 are left out on each side."""
    assert interval(np.arange(80)[::-1].astype(float)) == (2, 77)
    assert interval(np.array([3.0])) == (3, 3)


def test_interval_holds_the_score_and_can_be_left_out(systems):
    references, ours, _ = systems
    (score,) = evaluate_translations(ours, references, EvaluationConfig(metrics=("bleu",))).scores
    low, high = score.interval
    assert low < score.value < high
    config = EvaluationConfig(metrics=("bleu",), resamples=0)
    (score,) = evaluate_translations(ours, references, config).scores
    assert score.interval is None


def test_other_counts_are_refused(systems):
    references, ours, _ = systems
    (measure,) = measures_of(EvaluationConfig(metrics=("chrf",)), references)
    rows = measure.rows(ours, references)
    with pytest.raises(DataError, match="120 lines and 119 lines"):
        paired_bootstrap(measure, rows, rows[1:])
