"""Parallel text on disk: pairs of lines that stay pairs, from one source or several.

Nothing here loads a corpus into memory, and nothing leaves a pair out without counting it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gnomon.text.occurrences import Occurrences
from gnomon.text.sources import PairFormat, SourceConfig
from gnomon.text.text_source import TextSource

_BLOCK = 1 << 16  # line numbers handled at a time


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
    """A source text, the target text that belongs to it, and where they stand."""

    line: int  # number in the corpus, from 1: that of its file, where there is one source
    source: str
    target: str
    tags: tuple[str, ...] = ()  # to be put in front of the source


def in_chunks(
    pairs: Iterable[Pair], *, num_pairs: int, num_characters: int
) -> Iterator[list[Pair]]:
    """Cut pairs into lists of at most `num_pairs`, or fewer where these are long."""
    chunk: list[Pair] = []
    characters = 0
    for pair in pairs:
        chunk.append(pair)
        characters += len(pair.source) + len(pair.target)
        if len(chunk) == num_pairs or characters >= num_characters:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


class Part(NamedTuple):
    """Where the lines of one source stand in the corpus: after line `start`, to `stop`."""

    text: TextSource
    start: int
    stop: int


class ParallelCorpus:
    """Pairs from one source or several, one after the other; read anew on each pass.

    Args:
        name: what to call it in messages, such as "train".
        source: source file, or None with `pairs`.
        target: target file, or None with `pairs`.
        pairs: file with both sides: TSV (exactly one TAB a line), JSON lines or Parquet.
        format, source_field, target_field: see `SourceConfig`.

    Raises:
        DataError: a file cannot be read, or two have not the same number of lines.
    """

    def __init__(
        self,
        name: str,
        *,
        source: str | Path | None = None,
        target: str | Path | None = None,
        pairs: str | Path | None = None,
        format: PairFormat = "auto",
        source_field: str = "source",
        target_field: str = "target",
    ) -> None:
        config = SourceConfig(
            source=None if source is None else str(source),
            target=None if target is None else str(target),
            pairs=None if pairs is None else str(pairs),
            format=format,
            source_field=source_field,
            target_field=target_field,
        )
        assert not config.problems(""), "two files, or one of pairs"
        self._hold(name, _in_a_row([TextSource(config)]))

    @classmethod
    def of(
        cls, name: str, sources: Sequence[TextSource], counts: Sequence[int] | None = None
    ) -> ParallelCorpus:
        """Open several sources as one corpus.

        Args:
            name: as above.
            sources: one or more.
            counts: lines of each, where that is known already.

        Raises:
            DataError: as above.
        """
        assert sources, "a corpus has a source"
        corpus = object.__new__(cls)
        corpus._hold(name, _in_a_row(sources, counts))
        return corpus

    def _hold(
        self,
        name: str,
        parts: tuple[Part, ...],
        only: NDArray[np.int64] | None = None,
        without: NDArray[np.int64] | None = None,
    ) -> None:
        self.name = name
        self.parts = parts
        self.num_lines = parts[-1].stop
        self._only = only
        self._without = without
        self._sieve: Sieve | None = None

    def __len__(self) -> int:
        if self._sieve is not None:
            return len(self._sieve)
        if self._only is not None:
            return len(self._only)
        return self.num_lines - (0 if self._without is None else len(self._without))

    def through(self, sieve: Sieve) -> ParallelCorpus:
        """Return what the sieve leaves of the corpus."""
        sieved = copy(self)
        sieved._sieve = sieve
        sieved.__dict__.pop("fingerprint", None)  # that of the corpus as it was
        return sieved

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file, in order."""
        return tuple(file for part in self.parts for file in part.text.files)

    @property
    def tag_sets(self) -> tuple[tuple[str, ...], ...]:
        """What stands in front of its sources, each combination of tags once."""
        return tuple(dict.fromkeys(part.text.config.tags for part in self.parts))

    def select(self, name: str, rows: NDArray[np.int64]) -> ParallelCorpus:
        """Return the part that holds only `rows` (line numbers from 0, ascending)."""
        return self._limited(name, only=rows)

    def without(self, name: str, rows: NDArray[np.int64]) -> ParallelCorpus:
        """Return the part that holds all but `rows` (line numbers from 0, ascending)."""
        return self._limited(name, without=rows)

    def and_then(self, text: TextSource) -> ParallelCorpus:
        """Return the corpus with one more source behind its own.

        Raises:
            DataError: that source is empty, or its files do not run in parallel.
        """
        assert self._sieve is None and self._only is None, "whoever sieves has counted the pairs"
        longer = object.__new__(ParallelCorpus)
        part = Part(text, self.num_lines, self.num_lines + text.count())
        longer._hold(self.name, (*self.parts, part), without=self._without)
        return longer

    def _limited(self, name: str, **rows: NDArray[np.int64]) -> ParallelCorpus:
        assert self._only is None and self._without is None, "limit the whole corpus"
        part = object.__new__(ParallelCorpus)
        part._hold(name, self.parts, **rows)
        return part

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of the files' bytes, their tags, and which lines belong to the corpus."""
        prints = [part.text.fingerprint for part in self.parts]
        files = prints[0] if len(prints) == 1 else hashlib.sha256(str(prints).encode()).hexdigest()
        chosen = self._chosen()
        if self._sieve is not None:
            chosen += f" {self._sieve.fingerprint}"
        return hashlib.sha256(f"{files} {chosen}".encode()).hexdigest()

    def _chosen(self) -> str:
        """Digest of the line numbers, from 0, as int64; "all" where none is left out."""
        if self._only is None and self._without is None:
            return "all"
        digest = hashlib.sha256()
        if self._only is not None:
            digest.update(self._only.tobytes())
        else:
            assert self._without is not None
            for start in range(0, self.num_lines, _BLOCK):
                rows = np.arange(start, min(start + _BLOCK, self.num_lines))
                digest.update(rows[~np.isin(rows, self._without)].tobytes())
        return digest.hexdigest()

    def pairs(self, breaks: Occurrences | None = None) -> Iterator[Pair]:
        """Iterate over the pairs in the order of the sources.

        Args:
            breaks: counts pairs in which a line break became a blank, by line number.

        Raises:
            DataError: a line is not valid text, or not one pair.
        """
        pairs = self._chosen_pairs(breaks)
        return pairs if self._sieve is None else self._sieve.apply(pairs)

    def _chosen_pairs(self, breaks: Occurrences | None) -> Iterator[Pair]:
        if self._only is not None:
            yield from self._picked(self._only.tolist())
            return
        left_out = iter(() if self._without is None else self._without.tolist())
        skip = next(left_out, -1)
        for pair in self._every(breaks):
            if pair.line == skip + 1:
                skip = next(left_out, -1)
            else:
                yield pair

    def _every(self, breaks: Occurrences | None) -> Iterator[Pair]:
        for part in self.parts:
            tags = part.text.config.tags
            own = Occurrences()
            for line, (source, target) in enumerate(part.text.rows(own), part.start + 1):
                yield Pair(line, source, target, tags)
            if breaks is not None:
                breaks.add_all(own, part.start)

    def _picked(self, rows: list[int]) -> Iterator[Pair]:
        wanted = iter(rows)
        row = next(wanted, None)
        for pair in self._every(None):
            if row is None:
                return
            if pair.line == row + 1:
                yield pair
                row = next(wanted, None)

    @property
    def sources(self) -> Side:
        """The source texts, to be iterated over any number of times."""
        return Side(self, lambda pair: pair.source)

    @property
    def targets(self) -> Side:
        """The target texts, to be iterated over any number of times."""
        return Side(self, lambda pair: pair.target)

    def part_of(self, line: int) -> Part:
        """Return the source that holds a line of the corpus."""
        return next(part for part in self.parts if part.start < line <= part.stop)

    def place(self, line: int) -> str:
        """Return file and line number of a line of the corpus, for messages."""
        part = self.part_of(line)
        return f"{part.text.files[0]}, line {line - part.start}"

    def spot(self, line: int) -> str:
        """Return the number of a line in its file, "8", or "news:8" where there are several."""
        part = self.part_of(line)
        if len(self.parts) == 1:
            return str(line - part.start)
        return f"{part.text.config.name or part.text.files[0].name}:{line - part.start}"

    def places(self, lines: Iterable[int], total: int | None = None) -> str:
        """Return the places of some lines, "lines 3, 8 …", by source where there are several.

        Args:
            lines: numbers in the corpus.
            total: how many there are in all, if these are only the first.
        """
        lines = list(lines)
        more = " …" if total is not None and total > len(lines) else ""
        if len(self.parts) == 1:
            return f"lines {', '.join(map(str, lines))}{more}"
        by_text: dict[str, list[int]] = {}
        for line in lines:
            part = self.part_of(line)
            by_text.setdefault(str(part.text), []).append(line - part.start)
        named = (f"{text} lines {', '.join(map(str, own))}" for text, own in by_text.items())
        return "; ".join(named) + more


class Side:
    """One side of a corpus: an iterable of lines that can be gone through again and again."""

    def __init__(self, corpus: ParallelCorpus, pick: Callable[[Pair], str]) -> None:
        self._corpus = corpus
        self._pick = pick

    def __len__(self) -> int:
        return len(self._corpus)

    def __iter__(self) -> Iterator[str]:
        return map(self._pick, self._corpus.pairs())


def _in_a_row(
    sources: Sequence[TextSource], counts: Sequence[int] | None = None
) -> tuple[Part, ...]:
    parts: list[Part] = []
    for index, text in enumerate(sources):
        start = parts[-1].stop if parts else 0
        parts.append(Part(text, start, start + (text.count() if counts is None else counts[index])))
    return tuple(parts)
