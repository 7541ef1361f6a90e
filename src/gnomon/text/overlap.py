"""What training text shares with other text, and what of it is set aside; in bounded memory."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gnomon.text.corpus import Pair, ParallelCorpus
from gnomon.text.key_file import NO_KEY, KeyFile
from gnomon.text.occurrences import Occurrences

_CHUNK = 1 << 15  # pairs hashed at a time


@dataclass(frozen=True)
class Overlap:
    """What `find_overlap` found.

    Attributes:
        held_out: rows (line numbers from 0, ascending) to set aside.
        others: for each other corpus, its pairs whose source is in the rest.
    """

    held_out: list[int]
    others: list[Occurrences]


def find_overlap(
    train: ParallelCorpus,
    others: Sequence[ParallelCorpus | None],
    num_wanted: int,
    breaks: Occurrences,
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
        scratch: folder in which hashes lie meanwhile; default: the system's.
    """
    other_keys = [_source_keys(() if other is None else other.pairs()) for other in others]
    marked = [np.zeros(len(keys), np.bool_) for keys in other_keys]
    held_out: list[int] = []
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".overlap-", dir=scratch) as folder,
        KeyFile(Path(folder) / "sources") as sources,
    ):
        pairs = train.pairs(breaks)
        while chunk := list(islice(pairs, _CHUNK)):
            sources.add(_source_keys(chunk))
        for rows, source_keys in sources.parts():
            chosen = _choose(source_keys, num_wanted - len(held_out))
            held = np.isin(source_keys, chosen)
            held_out += rows[held].tolist()
            for keys, hits in zip(other_keys, marked, strict=True):
                hits |= np.isin(keys, source_keys[~held])
    return Overlap(
        held_out=sorted(held_out),
        others=[Occurrences.at((np.flatnonzero(hits) + 1).tolist()) for hits in marked],
    )


def _source_keys(pairs: Iterable[Pair]) -> NDArray[np.uint64]:
    return np.fromiter(map(_source_key, pairs), np.uint64)


def _source_key(pair: Pair) -> int:
    plain = " ".join(pair.source.casefold().split())
    if not plain or not pair.target or pair.target.isspace():
        return NO_KEY
    digest = hashlib.blake2b(plain.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1  # NO_KEY is taken


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
