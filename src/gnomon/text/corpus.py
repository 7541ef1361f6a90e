"""Parallel text on disk: what to read, and pairs of lines that stay pairs.

Nothing here loads a corpus into memory, and nothing leaves a pair out without counting it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError
from gnomon.files import sha256_of
from gnomon.text.alignment import find_divergence
from gnomon.text.lines import count_lines, in_step, read_lines


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which files hold the text, and which pairs of them are learned from.

    Each split is two files whose line i belong together, or one file with exactly one TAB a line.
    """

    source: str | None = None  # training text, one sentence a line
    target: str | None = None  # its translation, line by line
    tsv: str | None = None  # in place of the two: source TAB target
    valid_source: str | None = None
    valid_target: str | None = None
    valid_tsv: str | None = None
    test_source: str | None = None
    test_target: str | None = None
    test_tsv: str | None = None
    holdout: int = 1000  # pairs kept from training to validate on, where no validation files are
    #                      given; never more than a tenth of the training pairs
    max_length: int = 256  # tokens of either side, end of sentence included
    on_too_long: Literal["drop", "error"] = "drop"  # longer pairs: left out and counted, or refused

    def problems(self) -> list[str]:
        """Return every rule broken across fields; empty if all is well."""
        found = []
        for prefix in ("", "valid_", "test_"):
            source, target, tsv = self.files(prefix)
            if tsv is not None and (source is not None or target is not None):
                found.append(
                    f"data.{prefix}tsv cannot stand beside data.{prefix}source and "
                    f"data.{prefix}target: give one file or two"
                )
            elif (source is None) != (target is None):
                missing, option = ("source", "--src") if source is None else ("target", "--tgt")
                mend = f"set it{'' if prefix else f', or give {option}'}"
                found.append(f"data.{prefix}{missing} is missing beside the other side: {mend}")
        if self.holdout < 0:
            found.append(f"data.holdout must be 0 or more, is {self.holdout}")
        if self.max_length < 2:
            found.append(f"data.max_length must be 2 or more, is {self.max_length}: set it to 256")
        return found

    def files(self, prefix: str) -> tuple[str | None, str | None, str | None]:
        """Return source, target and TSV file of the split whose fields start with `prefix`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values[f"{prefix}source"], values[f"{prefix}target"], values[f"{prefix}tsv"]


class Sieve(Protocol):
    """Leaves pairs of a corpus out, or changes them."""

    fingerprint: str  # hex digest of what it does

    def __len__(self) -> int:
        """Pairs that are left."""
        ...

    def apply(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        """Yield what is left of the corpus's pairs, in their order."""
        ...


class Pair(NamedTuple):
    """One line of the source and the line of the target that belongs to it."""

    line: int  # number in the files, from 1
    source: str
    target: str


class ParallelCorpus:
    """Pairs of lines in two files or one TSV file; reads the files anew on each pass.

    Args:
        name: what to call it in messages, such as "train".
        source: source file, or None with `tsv`.
        target: target file, or None with `tsv`.
        tsv: file with exactly one TAB a line.
        rows: which lines belong to it, counted from 0, ascending; None for all.

    Raises:
        DataError: a file cannot be read, or the two have not the same number of lines.
    """

    def __init__(
        self,
        name: str,
        *,
        source: str | Path | None = None,
        target: str | Path | None = None,
        tsv: str | Path | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        if tsv is not None:
            assert source is None and target is None, "two files or one TSV"
            self.files: tuple[Path, ...] = (Path(tsv),)
        else:
            assert source is not None and target is not None, "both sides are needed"
            self.files = (Path(source), Path(target))
        for file in self.files:
            _check_rereadable(file)
        self.name = name
        self.num_lines = _count_pairs(self.files)
        self._rows = rows
        self._sieve: Sieve | None = None

    def __len__(self) -> int:
        if self._sieve is not None:
            return len(self._sieve)
        return self.num_lines if self._rows is None else len(self._rows)

    def select(self, name: str, rows: NDArray[np.int64]) -> ParallelCorpus:
        """Return the part of the files that holds `rows` (0-based line indices, ascending)."""
        part = object.__new__(ParallelCorpus)
        part.__dict__.update(name=name, files=self.files, num_lines=self.num_lines, _rows=rows)
        part._sieve = None
        return part

    def through(self, sieve: Sieve) -> ParallelCorpus:
        """Return what the sieve leaves of the corpus."""
        sieved = copy(self)
        sieved._sieve = sieve
        sieved.__dict__.pop("fingerprint", None)  # that of the corpus as it was
        return sieved

    @property
    def rows(self) -> NDArray[np.int64]:
        """Indices of the lines that belong to the corpus, counted from 0, ascending."""
        return np.arange(self.num_lines) if self._rows is None else self._rows

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of the files' bytes and of which lines belong to the corpus."""
        chosen = "all" if self._rows is None else hashlib.sha256(self._rows.tobytes()).hexdigest()
        if self._sieve is not None:
            chosen += f" {self._sieve.fingerprint}"
        return hashlib.sha256(f"{sha256_of(*self.files)} {chosen}".encode()).hexdigest()

    def pairs(self) -> Iterator[Pair]:
        """Iterate over the pairs in the order of the files.

        Raises:
            DataError: a line is not valid text, or has not exactly one TAB in a TSV.
        """
        pairs = self._chosen_pairs()
        return pairs if self._sieve is None else self._sieve.apply(pairs)

    def _chosen_pairs(self) -> Iterator[Pair]:
        every = self._tsv_pairs() if len(self.files) == 1 else self._file_pairs()
        if self._rows is None:
            yield from every
            return
        wanted = iter(self._rows.tolist())
        row = next(wanted, None)
        for pair in every:
            if row is None:
                return
            if pair.line == row + 1:
                yield pair
                row = next(wanted, None)

    @property
    def sources(self) -> Side:
        """The source lines, to be iterated over any number of times."""
        return Side(self, lambda pair: pair.source)

    @property
    def targets(self) -> Side:
        """The target lines, to be iterated over any number of times."""
        return Side(self, lambda pair: pair.target)

    def _file_pairs(self) -> Iterator[Pair]:
        source, target = self.files
        both = in_step(read_lines(source), read_lines(target))
        for number, (source_line, target_line) in enumerate(both, start=1):
            yield Pair(number, source_line, target_line)

    def _tsv_pairs(self) -> Iterator[Pair]:
        for number, line in enumerate(read_lines(self.files[0]), start=1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise DataError(
                    "a TSV line must hold exactly one TAB: source TAB target",
                    seen=f"{self.files[0]}, line {number}: {len(columns) - 1} TABs",
                    mend="keep two columns (cut -f1,2), and no TAB within a text",
                )
            yield Pair(number, columns[0], columns[1])


class Side:
    """One side of a corpus: an iterable of lines that can be gone through again and again."""

    def __init__(self, corpus: ParallelCorpus, pick: Callable[[Pair], str]) -> None:
        self._corpus = corpus
        self._pick = pick

    def __len__(self) -> int:
        return len(self._corpus)

    def __iter__(self) -> Iterator[str]:
        return map(self._pick, self._corpus.pairs())


def _check_rereadable(file: Path) -> None:
    if file.exists() and not file.is_file() and not file.is_dir():
        raise DataError(
            "text to learn from must be in files, as it is read more than once",
            seen=f"{file} is a pipe or device",
            mend="write it to a file first, and name that",
        )


def _count_pairs(files: tuple[Path, ...]) -> int:
    """Return the number of lines of the files, the same in each."""
    counts = [_count_lines(file) for file in files]
    if len(set(counts)) > 1:
        for file in files:  # what is no text at all has another number of lines, too
            deque(read_lines(file), maxlen=0)
        place = find_divergence(*files).describe(files)
        raise DataError(
            "source and target must have the same number of lines, as line i translates line i",
            seen=f"{files[0]}: {counts[0]:,} lines, {files[1]}: {counts[1]:,} lines; {place}",
            mend="look there for a line that is missing, or split in two, on one side",
        )
    return counts[0]


def _count_lines(file: Path) -> int:
    count = count_lines(file)
    if count == 0:
        raise DataError("a text file must not be empty", seen=file, mend="name the right file")
    return count
