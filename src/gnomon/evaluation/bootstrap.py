"""How far a score, or the difference of two, is chance of the test lines (Koehn 2004).

Test lines are drawn anew with replacement and scored again; sacreBLEU's `--confidence` and
`--paired-bs` do the same, and the draws, scores and p-values here are its own. Beyond it
the difference of two systems gets its interval, and memory does not grow with samples × lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.evaluation.config import EvaluationConfig
from gnomon.evaluation.measure import Measure, Measured, Rows

SIGNIFICANT = 0.05
"""Differences with a lower p-value are called significant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two systems on the same lines by one measure.

    Attributes:
        name: the measure's.
        value, against: the scores of the two.
        interval: 95 % bootstrap interval of `value - against`.
        p_value: how probable so large a difference is between systems of equal quality.
        verdict: "better" or "worse" where the difference is significant (p < 0.05), or "unclear".
        signature: of the scores and of the resampling.
    """

    name: str
    value: float
    against: float
    interval: tuple[float, float]
    p_value: float
    verdict: str
    signature: str


def resampled(measure: Measure, rows: Rows, *, samples: int, seed: int) -> NDArray[np.float64]:
    """Scores [samples] of as many bootstrap samples of the lines.

    Rows of equal length get the same draws from the same seed, which is what pairs two systems.
    """
    rng = np.random.default_rng(seed)
    count = len(rows)
    return np.array(
        [
            measure.value(np.bincount(rng.choice(count, size=count), minlength=count) @ rows)
            for _ in range(samples)
        ]
    )


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The middle 95 % of resampled values."""
    ordered = np.sort(values)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[len(ordered) - cut - 1])


def score_interval(
    measure: Measure, rows: Rows, config: EvaluationConfig
) -> tuple[float, float] | None:
    """95 % bootstrap interval of a score; None where the configuration asks for none."""
    if config.resamples == 0:
        return None
    return interval(resampled(measure, rows, samples=config.resamples, seed=config.resample_seed))


def paired_bootstrap(
    measure: Measure, rows: Rows, against: Rows, *, samples: int = 1000, seed: int = 12345
) -> Comparison:
    """Compare two systems by their statistics on the same lines.

    The p-value is sacreBLEU's (two-sided, from the spread of the absolute difference), but for two
    systems that no sample tells apart: there it is 1, where sacreBLEU's formula gives its least.

    Raises:
        DataError: the two do not have equally many lines.
    """
    if len(rows) != len(against):
        raise DataError(
            "two systems are compared on the same lines",
            seen=f"{len(rows)} lines and {len(against)} lines",
        )
    value, other = measure.value(rows.sum(axis=0)), measure.value(against.sum(axis=0))
    differences = resampled(measure, rows, samples=samples, seed=seed) - resampled(
        measure, against, samples=samples, seed=seed
    )
    spread = np.abs(differences) - np.abs(differences).mean()
    p_value = float((np.sum(spread > abs(value - other)) + 1) / (samples + 1))
    if not differences.any():
        p_value = 1.0
    verdict = "unclear"
    if p_value < SIGNIFICANT and value != other:
        verdict = "better" if (value > other) == measure.higher_is_better else "worse"
    return Comparison(
        name=measure.name,
        value=value,
        against=other,
        interval=interval(differences),
        p_value=p_value,
        verdict=verdict,
        signature=f"{measure.signature()}|bs:{samples}|seed:{seed}",
    )


def compared(
    measured: Measured, other: Sequence[str], references: Sequence[str], config: EvaluationConfig
) -> list[Comparison]:
    """A system, by its rows, against the lines of another one, measure by measure.

    A configuration without intervals is compared with the default number of samples.
    """
    samples = config.resamples or EvaluationConfig.resamples
    return [
        paired_bootstrap(
            measure,
            rows,
            measure.rows(other, references),
            samples=samples,
            seed=config.resample_seed,
        )
        for measure, rows in measured
    ]
