"""Keys of many rows on disk, to find which rows share one: memory does not grow with the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_KEY = 0
_PARTITION = 2_000_000  # keys held at a time
_BLOCK = 1 << 18  # keys read at a time


class Repeated(NamedTuple):
    """Rows whose key stands in an earlier row."""

    rows: NDArray[np.int64]  # ascending
    first: NDArray[np.int64]  # the earliest row with the same key


class KeyFile:
    """64-bit hashes in the order of the rows; `NO_KEY` marks rows that are like no other."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._num_keys = 0

    def __enter__(self) -> KeyFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, keys: NDArray[np.uint64]) -> None:
        """Append the keys of the next rows."""
        self._file.write(keys.astype("<u8").tobytes())
        self._num_keys += len(keys)

    def parts(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
        """Give rows and their keys by ascending key, equal ones in the order of the rows.

        They come in parts, and what is equal falls into the same part.
        """
        num_parts = 1 + self._num_keys // _PARTITION
        for part in range(num_parts):
            rows, keys = self._part(part, num_parts)
            order = np.argsort(keys, kind="stable")
            yield rows[order], keys[order]

    def repeated(self) -> Iterator[Repeated]:
        """Find the repeated rows, in parts."""
        for rows, keys in self.parts():
            again = np.zeros(len(keys), np.bool_)
            again[1:] = keys[1:] == keys[:-1]
            starts = np.maximum.accumulate(np.where(again, 0, np.arange(len(keys))))
            found, first = rows[again], rows[starts[again]]
            by_row = np.argsort(found)
            yield Repeated(found[by_row], first[by_row])

    def _part(self, part: int, num_parts: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        rows, keys = [], []
        self._file.seek(0)
        start = 0
        while block := self._file.read(8 * _BLOCK):
            here = np.frombuffer(block, "<u8")
            range_of = (here >> np.uint64(32)) * np.uint64(num_parts) >> np.uint64(32)
            mine = np.flatnonzero((range_of == part) & (here != NO_KEY))
            rows.append(mine + start)
            keys.append(here[mine])
            start += len(here)
        if not rows:
            return np.zeros(0, np.int64), np.zeros(0, np.uint64)
        return np.concatenate(rows), np.concatenate(keys)
