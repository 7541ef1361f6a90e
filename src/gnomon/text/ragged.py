"""Rows of unlike length as two flat arrays: what token ids are, on disk and while encoded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of ids, one after the other.

    Attributes:
        ids: all of them, int64 [sum of lengths].
        lengths: ids of each row, int64 [num_rows].
    """

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        """Lay lists of ids one after the other."""
        rows = list(rows)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
        return cls(ids, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each row begins, and where the last one ends [num_rows + 1]."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])

    def where(self, keep: NDArray[np.bool_]) -> Ragged:
        """The rows for which `keep` [num_rows] is True."""
        if keep.all():
            return self
        return Ragged(self.ids[np.repeat(keep, self.lengths)], self.lengths[keep])

    def cut(self, limit: int) -> Ragged:
        """The rows without what stands beyond their first `limit` ids."""
        if not len(self) or self.lengths.max() <= limit:
            return self
        within = np.arange(len(self.ids)) - np.repeat(self.offsets[:-1], self.lengths)
        return Ragged(self.ids[within < limit], np.minimum(self.lengths, limit))

    def behind(self, heads: Ragged) -> Ragged:
        """Row i of `heads` and row i of this, as one row."""
        lengths = heads.lengths + self.lengths
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        of_head = within < np.repeat(heads.lengths, lengths)
        ids = np.empty(len(within), np.int64)
        ids[of_head], ids[~of_head] = heads.ids, self.ids
        return Ragged(ids, lengths)

    def rows(self) -> list[list[int]]:
        """The rows as lists."""
        return [row.tolist() for row in np.split(self.ids, self.offsets[1:-1])] if len(self) else []


def gather(
    ids: NDArray[Any], offsets: NDArray[np.int64], indices: NDArray[np.int64]
) -> NDArray[Any]:
    """Ids of the rows at `indices`, one row after the other; a copy.

    Args:
        ids: rows one after the other.
        offsets: where each begins, and where the last one ends [num_rows + 1].
        indices: rows, in any order and number.
    """
    starts = offsets[indices]
    lengths = offsets[indices + 1] - starts
    shifts = starts - (np.cumsum(lengths) - lengths)  # from place in the result to place in `ids`
    gathered: NDArray[Any] = ids[np.arange(lengths.sum()) + np.repeat(shifts, lengths)]
    return gathered
