"""Keys of many rows on disk, to find which rows share one: memory does not grow with the rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_KEY = 0
_PARTITION = 1 << 17  # keys held at a time: some 10 MB
_BLOCK = 1 << 17  # keys read at a time
_ENTRY = np.dtype([("key", "<u8"), ("row", "<i8")])
_REPEAT = np.dtype([("row", "<i8"), ("first", "<i8")])


class Repeated(NamedTuple):
    """Rows whose key stands in an earlier row."""

    rows: NDArray[np.int64]  # ascending
    first: NDArray[np.int64]  # the earliest row with the same key


class KeyFile:
    """64-bit hashes in the order of the rows; `NO_KEY` marks rows that are like no other."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
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
        with TemporaryDirectory(dir=self._folder) as folder:
            paths = [Path(folder) / str(part) for part in range(num_parts)]
            for entries in self._entries():
                # Hashes are spread evenly, so ranges of keys hold about as many each.
                part_of = (entries["key"] >> np.uint64(32)) * np.uint64(num_parts) >> np.uint64(32)
                order = np.argsort(part_of, kind="stable")
                parts, starts = np.unique(part_of[order], return_index=True)
                dealt = np.split(entries[order], starts[1:])
                for part, some in zip(parts.tolist(), dealt, strict=True):
                    with paths[part].open("ab") as file:
                        some.tofile(file)
            for path in filter(Path.exists, paths):
                entries = np.fromfile(path, _ENTRY)
                entries = entries[np.argsort(entries["key"], kind="stable")]
                yield entries["row"], entries["key"]

    def repeated(self) -> Iterator[Repeated]:
        """Find the repeated rows, in parts; rows ascend from part to part."""
        with TemporaryDirectory(dir=self._folder) as folder:
            path = Path(folder) / "repeats"
            ends = [0]
            with path.open("wb") as file:
                for rows, keys in self.parts():
                    found = _repeats(rows, keys)
                    found.tofile(file)
                    ends.append(ends[-1] + len(found))
            if ends[-1] == 0:
                return
            found = np.memmap(path, _REPEAT, "r").view(np.ndarray)
            parts = [found[start:end] for start, end in pairwise(ends)]
            for start in range(0, self._num_keys, _BLOCK):
                bounds = (start, start + _BLOCK)
                within = [part[slice(*np.searchsorted(part["row"], bounds))] for part in parts]
                here = np.concatenate(within)
                here = here[np.argsort(here["row"])]
                yield Repeated(here["row"], here["first"])

    def _entries(self) -> Iterator[NDArray[Any]]:
        """The keys in blocks, each with its row; those that are like no other are left out."""
        self._file.seek(0)
        start = 0
        while block := self._file.read(8 * _BLOCK):
            keys = np.frombuffer(block, "<u8")
            entries = np.empty(len(keys), _ENTRY)
            entries["key"] = keys
            entries["row"] = np.arange(start, start + len(keys))
            start += len(keys)
            if (entries := entries[keys != NO_KEY]).size:
                yield entries


def _repeats(rows: NDArray[np.int64], keys: NDArray[np.uint64]) -> NDArray[Any]:
    """Of rows by ascending key, those whose key stands before them: `_REPEAT`, by row."""
    again = np.zeros(len(keys), np.bool_)
    again[1:] = keys[1:] == keys[:-1]
    starts = np.maximum.accumulate(np.where(again, 0, np.arange(len(keys))))
    found = np.empty(int(again.sum()), _REPEAT)
    found["row"], found["first"] = rows[again], rows[starts[again]]
    return found[np.argsort(found["row"])]
