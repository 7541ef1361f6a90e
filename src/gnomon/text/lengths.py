"""Lengths of the rows of a flat array on disk, computed where they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 16  # rows looked at together


class Lengths:
    """What an array of lengths would hold, without holding it.

    Args:
        offsets: where each row begins, and where the last one ends [num_rows + 1]; may be mapped.
        extra: added to each length.
    """

    def __init__(self, offsets: NDArray[np.int64], extra: int) -> None:
        self._offsets = offsets
        self._extra = extra

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, rows: Any) -> Any:
        """The lengths of some rows (index, array or slice), as an int64 array would give them."""
        starts, ends = self._offsets[:-1], self._offsets[1:]
        return ends[rows] - starts[rows] + self._extra

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.int64]:
        """All of them, in memory."""
        return np.asarray(self[:], dtype)

    def blocks(self) -> Iterator[NDArray[np.int64]]:
        """All of them in order, some at a time."""
        for start in range(0, len(self), _BLOCK):
            yield self[start : start + _BLOCK]

    def max(self) -> int:
        """The greatest length; there must be rows."""
        return max(int(block.max()) for block in self.blocks())

    def sum(self) -> int:
        """The sum of all lengths."""
        return int(self._offsets[-1] - self._offsets[0]) + len(self) * self._extra
