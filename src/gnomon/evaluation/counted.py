"""What counting alone knows of labels: logistic regression over characters, beside any model.

n-grams of one to three characters, weighed by tf-idf, each text of length 1 (scikit-learn's
`TfidfVectorizer(sublinear_tf=True)` and `LogisticRegression(C=10)` but for hashing). Such a line is
hard to beat on a few thousand texts: a model that does not is worth nothing.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LONGEST = 3  # characters of an n-gram
_NUM_BUCKETS = 1 << 18
_NUM_STEPS = 200
_TRUST = 10.0  # scikit-learn's C: how much the texts count beside the penalty on large weights


@dataclass(frozen=True)
class _Rows:
    """Texts as sparse rows: buckets and values, one text after the other."""

    buckets: NDArray[np.int64]
    values: NDArray[np.float64]
    owners: NDArray[np.int64]
    count: int

    def times(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The product with a vector [buckets]."""
        return _sums(self.owners, self.values * weights[self.buckets], self.count)

    def gathered(self, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        """The transposed product with a vector [texts]."""
        return _sums(self.buckets, self.values * errors[self.owners], _NUM_BUCKETS)


def _sums(
    places: NDArray[np.int64], values: NDArray[np.float64], count: int
) -> NDArray[np.float64]:
    return np.bincount(places, values, count).astype(np.float64, copy=False)


class CountedCharacters:
    """One against the rest for each label.

    Args:
        texts, labels: what to learn from, one for one.
    """

    def __init__(self, texts: Sequence[str], labels: Sequence[str]) -> None:
        self.labels = sorted(set(labels))
        counted = [_counts(text) for text in texts]
        seen = Counter(bucket for counts in counted for bucket in counts)
        self._idf = np.ones(_NUM_BUCKETS)
        buckets = np.fromiter(seen.keys(), np.int64, len(seen))
        documents = np.fromiter(seen.values(), np.float64, len(seen))
        self._idf[buckets] = np.log((1 + len(texts)) / (1 + documents)) + 1
        rows = self._rows(counted)
        gold = np.array(labels)
        chosen = self.labels[1:] if len(self.labels) == 2 else self.labels
        self._fits = [_fit(rows, (gold == label).astype(np.float64)) for label in chosen]

    def _rows(self, counted: Sequence[dict[int, int]]) -> _Rows:
        lengths = [len(counts) for counts in counted]
        owners = np.repeat(np.arange(len(counted)), lengths)
        buckets = np.fromiter((b for counts in counted for b in counts), np.int64, sum(lengths))
        numbers = (n for counts in counted for n in counts.values())
        values = (1 + np.log(np.fromiter(numbers, np.float64, sum(lengths)))) * self._idf[buckets]
        norms = np.sqrt(np.bincount(owners, values**2, len(counted)))
        return _Rows(buckets, values / np.maximum(norms, 1e-12)[owners], owners, len(counted))

    def classify(self, texts: Sequence[str]) -> list[str]:
        """The most probable label of each text."""
        rows = self._rows([_counts(text) for text in texts])
        scores = np.stack([rows.times(weights) + bias for weights, bias in self._fits])
        if len(scores) == 1:
            scores = np.stack([np.zeros(rows.count), scores[0]])
        return [self.labels[index] for index in scores.argmax(axis=0)]


def _fit(rows: _Rows, gold: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Weights and bias that make the regularised loss least: Nesterov's accelerated gradient."""
    penalty = 1 / (_TRUST * rows.count)
    # Half of what the weights alone would bear, and of what the bias would.
    rate, bias_rate = 0.5 / (0.25 * _curvature(rows) + penalty), 0.5 / 0.25
    weights = ahead = np.zeros(_NUM_BUCKETS)
    bias = bias_ahead = 0.0
    for step in range(_NUM_STEPS):
        errors = 1 / (1 + np.exp(-rows.times(ahead) - bias_ahead)) - gold
        moved = ahead - rate * (rows.gathered(errors) / rows.count + penalty * ahead)
        bias_moved = bias_ahead - bias_rate * float(errors.mean())
        momentum = step / (step + 3)
        ahead = moved + momentum * (moved - weights)
        bias_ahead = bias_moved + momentum * (bias_moved - bias)
        weights, bias = moved, bias_moved
    return weights, bias


def _curvature(rows: _Rows) -> float:
    """The greatest eigenvalue of the mean of x xT, by the power method."""
    vector = np.ones(rows.count)
    size = 1.0
    for _ in range(20):
        vector = rows.times(rows.gathered(vector)) / rows.count
        size = float(np.linalg.norm(vector))
        vector /= max(size, 1e-12)
    return 1.1 * size + 1e-12


def _counts(text: str) -> dict[int, int]:
    lowered = text.lower()
    return Counter(
        zlib.crc32(lowered[start : start + size].encode("utf-8", "surrogatepass")) % _NUM_BUCKETS
        for size in range(1, _LONGEST + 1)
        for start in range(len(lowered) - size + 1)
    )
