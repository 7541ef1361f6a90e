"""How often an epoch shows the pairs of each source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor, prod

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
        examples: these, in the order of the sources, in place of 0, 1, 2 …

    Raises:
        DataError: an epoch could be without any pair.
    """

    def __init__(
        self,
        weights: Sequence[float | Fraction],
        bounds: Sequence[int],
        seed: int,
        examples: NDArray[np.int64] | None = None,
    ) -> None:
        assert len(weights) == len(bounds), "one weight a source"
        self._weights = [_exact(weight) for weight in weights]
        self._bounds = list(bounds)
        self._seed = seed
        self._examples = examples
        sizes = np.diff([0, *self._bounds]).tolist()
        if all(weight * size < 1 for weight, size in zip(self._weights, sizes, strict=True)):
            seen = (f"{float(w):g} x {n:,} pairs" for w, n in zip(weights, sizes, strict=True))
            raise DataError(
                "every epoch must show at least one pair of some source",
                seen=", ".join(seen),
                mend="raise all weights alike, which only makes epochs longer",
            )

    @classmethod
    def of(cls, groups: Sequence[tuple[Sequence[float], NDArray[np.int64]]], seed: int) -> Weights:
        """Weigh groups of examples, each by the product of some factors."""
        weights = [prod(map(_exact, factors)) for factors, _ in groups]
        bounds = np.cumsum([len(examples) for _, examples in groups]).tolist()
        examples = np.concatenate([examples for _, examples in groups])
        in_order = bool((examples == np.arange(len(examples))).all())
        return cls(weights, bounds, seed, None if in_order else examples)

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
        places = np.concatenate(parts)
        return places if self._examples is None else self._examples[places]

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


def _exact(weight: float | Fraction) -> Fraction:
    """As written: 0.1 is a tenth, not the nearest binary fraction."""
    return Fraction(str(weight))
