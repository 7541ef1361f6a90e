"""How often an epoch shows the pairs of each source."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor, prod

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.text.marked import Marked
from gnomon.text.permutation import KeyedPermutation

Examples = range | Marked  # never a list of them, which would take 8 bytes each

# Examples that are seen equally often, and the factors of their weight.
Group = tuple[Sequence[float], Examples]


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
        examples: of each source, in place of 0, 1, 2 … up to the bounds.

    Raises:
        DataError: an epoch could be without any pair.
    """

    def __init__(
        self,
        weights: Sequence[float | Fraction],
        bounds: Sequence[int],
        seed: int,
        examples: Sequence[Examples] | None = None,
    ) -> None:
        assert len(weights) == len(bounds), "one weight a source"
        self._weights = [_exact(weight) for weight in weights]
        starts = [0, *bounds[:-1]]
        self._examples = examples or list(map(range, starts, bounds))
        self._counts: list[int] = np.diff([0, *bounds]).tolist()
        self._seed = seed
        if all(weight * size < 1 for weight, size in zip(self._weights, self._counts, strict=True)):
            seen = (
                f"{float(w):g} x {n:,} pairs" for w, n in zip(weights, self._counts, strict=True)
            )
            raise DataError(
                "every epoch must show at least one pair of some source",
                seen=", ".join(seen),
                mend="raise all weights alike, which only makes epochs longer",
            )

    @classmethod
    def of(cls, groups: Sequence[Group], seed: int) -> Weights:
        """Weigh groups of examples, each by the product of some factors."""
        weights = [prod(map(_exact, factors)) for factors, _ in groups]
        examples = [examples for _, examples in groups]
        return cls(weights, np.cumsum(list(map(len, examples))).tolist(), seed, examples)

    def size(self, number: int) -> int:
        """How many examples epoch `number` (from 0) holds, repeats counted."""
        return sum(end - first for first, end in self._shares(number))

    def examples(self, number: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """What epoch `number` shows at some of its places, each from 0 to its size less 1.

        The places of one source stand together; whoever wants them mixed asks for mixed places.
        """
        found = np.empty(len(places), np.int64)
        start = 0
        for source, (first, end) in enumerate(self._shares(number)):
            here = np.flatnonzero((places >= start) & (places < start + end - first))
            if len(here):
                found[here] = self._in_series(source, places[here] + (first - start))
            start += end - first
        return found

    def _shares(self, number: int) -> list[tuple[int, int]]:
        """The stretch of each source's endless series that an epoch takes."""
        shares = [weight * count for weight, count in zip(self._weights, self._counts, strict=True)]
        return [(floor(number * share), floor((number + 1) * share)) for share in shares]

    def _in_series(self, source: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The examples at some places of a source's endless series."""
        passes, within = np.divmod(places, self._counts[source])
        if self._weights[source] != 1:  # else whole passes, whatever their order
            for number in np.unique(passes).tolist():
                mine = passes == number
                order = KeyedPermutation(self._counts[source], [self._seed, source, number])
                within[mine] = order(within[mine])
        examples = self._examples[source]
        return examples[within] if isinstance(examples, Marked) else within + examples.start


def _exact(weight: float | Fraction) -> Fraction:
    """As written: 0.1 is a tenth, not the nearest binary fraction."""
    return Fraction(str(weight))
