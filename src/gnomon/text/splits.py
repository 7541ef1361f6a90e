"""The corpora of a run: what is trained on, validated on and tested on, and what they share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.text.corpus import DataConfig, ParallelCorpus

_BLANK = 0  # key of a pair that has an empty side


@dataclass(frozen=True)
class Repetition:
    """Pairs that occur before or elsewhere."""

    count: int
    first_lines: tuple[int, ...]  # numbers in the raw files, from 1


@dataclass(frozen=True)
class SplitReport:
    """What the splits share; a source counts as the same up to case and blanks."""

    held_out: int  # training pairs set aside for validation
    train_duplicates: Repetition  # pairs that stand in the training text before
    valid_in_train: Repetition  # validation pairs whose source is trained on
    test_in_train: Repetition  # test pairs whose source is trained on


@dataclass(frozen=True)
class Corpora:
    """The splits of a run."""

    train: ParallelCorpus
    valid: ParallelCorpus | None
    test: ParallelCorpus | None
    report: SplitReport


def open_corpora(config: DataConfig) -> Corpora:
    """Open every split, reading each file once from end to end.

    Where no validation files are given, pairs are set aside by the hash of their source: the
    same corpus gives the same pairs, in whatever order its lines stand, and pairs with the same
    source stay on one side.

    Raises:
        DataError: options that contradict, files that cannot be read, lines that do not pair up.
    """
    if problems := config.problems():
        raise DataError("the data options must fit together", seen="; ".join(problems))
    train = _open("train", *config.files(""))
    if train is None:
        raise DataError(
            "training text must be given, none is",
            mend="give --src and --tgt, or --data; or set data.source and data.target, or data.tsv",
        )
    valid = _open("valid", *config.files("valid_"))
    test = _open("test", *config.files("test_"))
    keys = _keys_of(train)
    num_held_out = 0
    if valid is None and config.holdout > 0:
        chosen = _hold_out(keys.sources, min(config.holdout, len(train) // 10))
        num_held_out = int(chosen.sum())
        if num_held_out:
            rows = np.arange(len(train))
            train, valid = train.select("train", rows[~chosen]), train.select("valid", rows[chosen])
            keys = _Keys(keys.sources[~chosen], keys.pairs[~chosen])
    report = SplitReport(
        held_out=num_held_out,
        train_duplicates=_repetition(train, _seen_before(keys.pairs)),
        valid_in_train=_overlap(None if num_held_out else valid, keys.sources),
        test_in_train=_overlap(test, keys.sources),
    )
    return Corpora(train, valid, test, report)


class _Keys(NamedTuple):
    """64-bit hashes of a corpus's lines."""

    sources: NDArray[np.uint64]
    pairs: NDArray[np.uint64]


def _open(
    name: str, source: str | None, target: str | None, tsv: str | None
) -> ParallelCorpus | None:
    if source is None and tsv is None:
        return None
    return ParallelCorpus(name, source=source, target=target, tsv=tsv)


def _keys_of(corpus: ParallelCorpus) -> _Keys:
    sources = np.empty(len(corpus), np.uint64)
    pairs = np.empty(len(corpus), np.uint64)
    for index, (_, source, target) in enumerate(corpus.pairs()):
        plain = " ".join(source.casefold().split())
        if plain and not target.isspace() and target:
            sources[index] = _hash(plain)
            pairs[index] = _hash(f"{source}\n{target}")
        else:
            sources[index] = pairs[index] = _BLANK
    return _Keys(sources, pairs)


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1  # 0 is taken


def _hold_out(sources: NDArray[np.uint64], num_pairs: int) -> NDArray[np.bool_]:
    """Choose up to `num_pairs` rows: whole groups of one source, in the order of their hash."""
    groups, counts = np.unique(sources[sources != _BLANK], return_counts=True)
    chosen = []
    room = num_pairs
    for group, count in zip(groups.tolist(), counts.tolist(), strict=True):
        if room == 0:
            break
        if count <= room:
            chosen.append(group)
            room -= count
    return np.isin(sources, np.array(chosen, np.uint64))


def _seen_before(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    repeated = np.ones(len(keys), np.bool_)
    repeated[np.unique(keys, return_index=True)[1]] = False
    repeated &= keys != _BLANK
    return repeated


def _overlap(corpus: ParallelCorpus | None, train: NDArray[np.uint64]) -> Repetition:
    if corpus is None:
        return Repetition(0, ())
    keys = _keys_of(corpus).sources
    return _repetition(corpus, np.isin(keys, train) & (keys != _BLANK))


def _repetition(corpus: ParallelCorpus, marked: NDArray[np.bool_]) -> Repetition:
    lines = corpus.rows[marked] + 1
    return Repetition(len(lines), tuple(lines[:5].tolist()))
