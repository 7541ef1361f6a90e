"""Epochs planned part by part, so that memory does not depend on the size of the corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gnomon.text.batches import BatchPlan
from gnomon.text.lengths import Lengths
from gnomon.text.permutation import KeyedPermutation
from gnomon.text.weights import Weights

# Examples planned at once, in some 9 MB. So many leave hardly more padding than any number would
# (`benchmarks/padding.py`).
_PART = 1 << 17
_BLOCK = 1 << 16  # examples looked through at once

Batches = list[NDArray[np.int64]]


class Epochs:
    """The batches of every epoch; a pure function of seed and epoch.

    The examples of an epoch are dealt at random into parts of equal size, and each part is planned
    by itself (see `BatchPlan`). An epoch that fits into one part is planned as a whole.

    Args:
        weights: which examples an epoch holds.
        tokens_per_batch: see `BatchPlan`.
        seed: with the epoch's number, all there is to the order.
        part: greatest number of examples planned at once.
    """

    def __init__(
        self, weights: Weights, tokens_per_batch: int, seed: int, part: int = _PART
    ) -> None:
        self._weights = weights
        self._tokens_per_batch = tokens_per_batch
        self._seed = seed
        self._part = part

    def epoch(self, number: int, sources: Lengths, targets: Lengths) -> Sequence[Batches]:
        """Return the parts of epoch `number` (from 0); each is planned when it is asked for.

        Args:
            number: the epoch.
            sources, targets: lengths of all examples as they stand in a batch.
        """
        size = self._weights.size(number)
        num_parts = -(-size // self._part)
        mixed = self._mixed(number, size, sources, targets) if num_parts > 1 else None

        def plan(index: int) -> Batches:
            start, stop = index * size // num_parts, (index + 1) * size // num_parts
            places = np.arange(start, stop)
            chosen = self._weights.examples(number, places if mixed is None else mixed(places))
            batches = BatchPlan(
                sources[chosen], targets[chosen], self._tokens_per_batch, self._seed
            )
            return [chosen[batch] for batch in batches.epoch(number, index)]

        return LazySequence(num_parts, plan)

    def _mixed(
        self, number: int, size: int, sources: Lengths, targets: Lengths
    ) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
        """The order in which the places of an epoch are dealt.

        In the first epoch the longest example changes places with the one that stands first, so
        that it is in the first part: too little memory must show at once.
        """
        order = KeyedPermutation(size, [self._seed, number])
        if number > 0:
            return order
        first, longest = int(order(np.zeros(1, np.int64))[0]), 0
        length = 0
        for start in range(0, size, _BLOCK):
            places = np.arange(start, min(start + _BLOCK, size))
            chosen = self._weights.examples(number, places)
            totals = sources[chosen] + targets[chosen]
            if totals.max() > length:
                longest, length = start + int(totals.argmax()), int(totals.max())

        def exchanged(places: NDArray[np.int64]) -> NDArray[np.int64]:
            found = order(places)
            is_first, is_longest = found == first, found == longest
            found[is_first], found[is_longest] = longest, first
            return found

        return exchanged


class LazySequence(Sequence[Any]):
    """A sequence whose items are made whenever they are asked for, and not kept."""

    def __init__(self, length: int, make: Callable[[int], Any]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        numbers = range(self._length)[index]
        if isinstance(numbers, range):
            return [self._make(number) for number in numbers]
        return self._make(numbers)

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, range(self._length))
