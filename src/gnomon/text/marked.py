"""Places of a mark in a long array, found when they are asked for instead of listed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BLOCK = 4096  # marks that are counted together: 8 bytes for as many bytes of marks


class Marked:
    """The places in a stretch of `marks` that hold `value`, in order.

    Only how many there are in each block is kept, so that memory hardly grows with the array, which
    may be mapped from the disk.

    Args:
        marks: bool.
        value: which.
        start, stop: the stretch.
    """

    def __init__(self, marks: NDArray[np.bool_], value: bool, start: int, stop: int) -> None:
        self._marks = marks
        self._value = value
        self._start, self._stop = start, stop
        counts = [len(self._within(first)) for first in range(start, stop, _BLOCK)]
        self._ends = np.cumsum(np.array(counts, np.int64))

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places with these ranks among the marked ones, from 0; in any order and number."""
        blocks = np.searchsorted(self._ends, ranks, side="right")
        order = np.argsort(blocks, kind="stable")
        found = np.empty(len(ranks), np.int64)
        borders = np.flatnonzero(np.diff(blocks[order])) + 1
        for here in np.split(order, borders) if len(order) else []:
            block = int(blocks[here[0]])
            before = self._ends[block - 1] if block else 0
            found[here] = self._within(self._start + block * _BLOCK)[ranks[here] - before]
        return found

    def _within(self, first: int) -> NDArray[np.int64]:
        part = self._marks[first : min(first + _BLOCK, self._stop)]
        return np.flatnonzero(part if self._value else ~part) + first
