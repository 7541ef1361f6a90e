"""How often an epoch shows the pairs of each source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError


class Weights:
    """Which examples an epoch holds; a pure function of seed and epoch.

    Each source is an endless series of passes over its pairs, each pass in an order of its own. An
    epoch takes the next weight · n of it, n being the pairs of the source: with weight 2 every pair
    twice, with 0.5 half of the pairs and in the next epoch the other half. After k epochs every
    pair was shown k · weight times, rounded down or up.

    Args:
        weights: of each source, above 0.
        bounds: where in the examples each source ends [num_sources], ascending.
        seed: decides the order of passes.

    Raises:
        DataError: an epoch could be without any pair.
    """

    def __init__(self, weights: Sequence[float], bounds: Sequence[int], seed: int) -> None:
        assert len(weights) == len(bounds), "one weight a source"
        # As written: 0.1 is a tenth, not the nearest binary fraction.
        self._weights = [Fraction(str(weight)) for weight in weights]
        self._bounds = list(bounds)
        self._seed = seed
        sizes = np.diff([0, *self._bounds]).tolist()
        if all(weight * size < 1 for weight, size in zip(self._weights, sizes, strict=True)):
            seen = (f"{w} x {n:,} pairs" for w, n in zip(weights, sizes, strict=True))
            raise DataError(
                "every epoch must show at least one pair of some source",
                seen=", ".join(seen),
                mend="raise all weights alike, which only makes epochs longer",
            )

    @property
    def even(self) -> bool:
        """Whether every epoch shows every example once."""
        return all(weight == 1 for weight in self._weights)

    def epoch(self, number: int) -> NDArray[np.int64]:
        """Return the examples of epoch `number` (from 0), with repeats."""
        starts = [0, *self._bounds[:-1]]
        parts = [
            start + self._of_source(source, stop - start, number)
            for source, (start, stop) in enumerate(zip(starts, self._bounds, strict=True))
        ]
        return np.concatenate(parts)

    def _of_source(self, source: int, count: int, number: int) -> NDArray[np.int64]:
        share = self._weights[source] * count
        first, end = floor(number * share), floor((number + 1) * share)
        pieces = list(self._passes(source, count, first, end))
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)

    def _passes(self, source: int, count: int, first: int, end: int) -> Iterator[NDArray[np.int64]]:
        """Give places `first` to `end` of the endless series, pass by pass."""
        while first < end:
            number, skip = divmod(first, count)
            take = min(end - first, count - skip)
            if take == count:  # the whole of it, whatever its order
                yield np.arange(count)
            else:
                random = np.random.default_rng([self._seed, source, number])
                yield random.permutation(count)[skip : skip + take]
            first += take
