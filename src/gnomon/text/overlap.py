"""What stands twice: within the training text, and in it and another text; in bounded memory.

Every training pair becomes a record of 24 bytes. Records go to one of 256 files by the first bits
of their source's hash, so pairs with one source meet in one file, and one file at a time is looked
through. A hundred million pairs take 2.4 GB of disk for that time and some 30 MB of memory.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.text.corpus import Pair, ParallelCorpus
from gnomon.text.pair_files import LineBreaks

_RECORD = np.dtype([("source", "<u8"), ("pair", "<u8"), ("row", "<i8")])
_CHUNK = 1 << 15  # pairs hashed at a time
_NUM_NAMED = 5
_BLANK = 0  # key of a pair that has an empty side


@dataclass(frozen=True)
class Repetition:
    """Pairs that occur before or elsewhere."""

    count: int
    first_lines: tuple[int, ...]  # numbers in the corpus, from 1


@dataclass(frozen=True)
class Overlap:
    """What `find_overlap` found.

    Attributes:
        held_out: rows (line numbers from 0, ascending) to set aside.
        duplicates: pairs of the rest that stand in it before.
        others: for each other corpus, its pairs whose source is in the rest.
    """

    held_out: list[int]
    duplicates: Repetition
    others: list[Repetition]


def find_overlap(
    train: ParallelCorpus,
    others: Sequence[ParallelCorpus | None],
    num_wanted: int,
    breaks: LineBreaks,
    scratch: Path | None = None,
) -> Overlap:
    """Choose up to `num_wanted` rows to hold out, and count what the rest repeats.

    Rows are held out in whole groups of one source, in the order of its hash: the choice depends
    on the sources alone, and pairs of one source stay on one side.

    Args:
        train: the training text, read once.
        others: held in memory by their hashes, 8 bytes a pair.
        num_wanted: rows to hold out.
        breaks: counts pairs of `train` in which a line break became a blank.
        scratch: folder in which records lie meanwhile; default: the system's.
    """
    other_keys = [_source_keys(other) for other in others]
    marked = [np.zeros(len(keys), np.bool_) for keys in other_keys]
    held_out: list[int] = []
    num_duplicates = 0
    duplicates: list[int] = []
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".overlap-", dir=scratch) as folder:
        for records in _grouped(train, Path(folder), breaks):
            chosen = _choose(records["source"], num_wanted - len(held_out))
            held = np.isin(records["source"], chosen)
            held_out += records["row"][held].tolist()
            rest = records[~held]
            for keys, hits in zip(other_keys, marked, strict=True):
                hits |= np.isin(keys, rest["source"])
            repeated = rest["row"][_seen_before(rest["pair"])]
            num_duplicates += len(repeated)
            duplicates = sorted([*duplicates, *repeated[:_NUM_NAMED].tolist()])[:_NUM_NAMED]
    return Overlap(
        held_out=sorted(held_out),
        duplicates=Repetition(num_duplicates, tuple(row + 1 for row in duplicates)),
        others=[_repetition(hits) for hits in marked],
    )


def _grouped(corpus: ParallelCorpus, folder: Path, breaks: LineBreaks) -> Iterator[NDArray[Any]]:
    """Give the records of all pairs, those of one source together, by ascending hash."""
    every = (record for record in map(_record, corpus.pairs(breaks)) if record[0])
    while chunk := list(islice(every, _CHUNK)):
        records = np.array(chunk, _RECORD)
        bucket = records["source"] >> np.uint64(56)
        order = np.argsort(bucket, kind="stable")
        records, bucket = records[order], bucket[order]
        numbers, starts = np.unique(bucket, return_index=True)
        for number, part in zip(numbers.tolist(), np.split(records, starts[1:]), strict=True):
            with (folder / f"{number:03}").open("ab") as file:
                part.tofile(file)
    for path in sorted(folder.iterdir()):
        yield np.fromfile(path, _RECORD)


def _record(pair: Pair) -> tuple[int, int, int]:
    source = _source_key(pair)
    whole = _hash("\n".join((pair.source, pair.target, *pair.tags))) if source else _BLANK
    return source, whole, pair.line - 1


def _source_key(pair: Pair) -> int:
    plain = " ".join(pair.source.casefold().split())
    return _hash(plain) if plain and pair.target and not pair.target.isspace() else _BLANK


def _source_keys(corpus: ParallelCorpus | None) -> NDArray[np.uint64]:
    pairs = () if corpus is None else corpus.pairs()
    return np.fromiter(map(_source_key, pairs), np.uint64)


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1  # 0 is taken


def _choose(sources: NDArray[np.uint64], room: int) -> NDArray[np.uint64]:
    """Choose groups of one source, in the order of their hash, as long as they fit."""
    chosen = []
    if room > 0:
        groups, counts = np.unique(sources, return_counts=True)
        for group, count in zip(groups.tolist(), counts.tolist(), strict=True):
            if count <= room:
                chosen.append(group)
                room -= count
            if room == 0:
                break
    return np.array(chosen, np.uint64)


def _seen_before(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    repeated = np.ones(len(keys), np.bool_)
    repeated[np.unique(keys, return_index=True)[1]] = False
    return repeated


def _repetition(marked: NDArray[np.bool_]) -> Repetition:
    lines = np.flatnonzero(marked) + 1
    return Repetition(len(lines), tuple(lines[:_NUM_NAMED].tolist()))
