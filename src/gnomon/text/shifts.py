"""Runs of lines in which a parallel corpus pairs each source with the target of a line nearby.

Both files have the same number of lines, and yet from some line on they do not belong together: a
line is missing here and another one there. Lines that belong together are of like length, hold the
same numbers and names and end in like punctuation (`text.alignment`); a run is found where that
holds for lines a few places apart, and holds for the pairs themselves no more than by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from gnomon.text.alignment import LineTraits, agreement
from gnomon.text.corpus import Pair

MIN_PAIRS = 64  # fewer do not tell
MAX_SHIFT = 16
_BLOCK = 1 << 15  # lines looked at together
_WINDOWS = (24, 96)  # lines whose agreement is averaged: short runs with much evidence, long ones
_CERTAIN = 5.0  # standard errors, since very many windows are looked at
_END = 12.0  # units of agreement: some ten pairs that do belong together
_LOST = 1 << 20  # no shift is so large
_SHARED = 0.7  # share of the pairs with numbers that must have one on both sides
_MISSES = 0.75  # share of such pairs in a lost run that have none
_FOUND = 0.6  # share of the missed numbers that must stand in other lines of the run
_DIFFERENT = 4  # numbers among these, as one that recurs stands anywhere
_SURPRISE = 25.0  # nats: how improbable these misses are in a sound text
_CHANCE = 2.0  # standard errors that pairs may lie above chance and still not belong together

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shifted:
    """A run of lines with another line's target.

    Attributes:
        first, last: numbers of its lines in the corpus.
        shift: the target of source line i stands in line i + shift; 0: their numbers stand in
            other lines of the run, and no shift explains it.
    """

    first: int
    last: int
    shift: int

    @property
    def num_lines(self) -> int:
        """How many lines the run has."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Fit:
    """How well the two sides of a corpus belong together, line by line.

    Attributes:
        agreement: mean over the pairs (see `text.alignment.agreement`).
        chance: mean over lines far apart, which do not belong together.
        error: standard error of the first against the second.
        runs: runs of shifted lines, in their order.
    """

    num_pairs: int
    agreement: float
    chance: float
    error: float
    runs: tuple[Shifted, ...]

    @property
    def unrelated(self) -> bool:
        """Whether the sides fit no better than by chance."""
        return self.agreement - self.chance < 3 * self.error


def find_shifts(pairs: Iterable[Pair]) -> Fit:
    """Read pairs once, some at a time; fewer than `MIN_PAIRS` do not tell anything."""
    stream = iter(pairs)
    runs: list[Shifted] = []
    total, sums, squares, chances = 0, 0.0, 0.0, 0.0
    while block := list(islice(stream, _BLOCK)):
        if len(block) < MIN_PAIRS and total:
            break  # the few lines at the end of a long corpus
        found = _Block(block)
        runs += found.runs()
        total += len(block)
        sums += float(found.straight.sum())
        chances += found.chance * len(block)
        squares += found.deviation**2 * len(block)
    count = max(total, 1)
    error = (squares / count / count) ** 0.5
    return Fit(total, sums / count, chances / count, error, tuple(_joined(runs)))


class _Block:
    """Some lines on both sides, and how well they fit at each shift."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.lines = np.array([pair.line for pair in pairs])
        self.source = LineTraits.of(pair.source for pair in pairs)
        self.target = LineTraits.of(pair.target for pair in pairs)
        self.ratio = float(np.median(self.source.log_lengths) - np.median(self.target.log_lengths))
        far = max(MAX_SHIFT + 1, len(pairs) // 3)
        apart = np.concatenate([self._fit(far + step, cut=True) for step in range(4)])
        self.chance, self.deviation = float(apart.mean()), float(apart.std()) or 1.0
        self.straight = self._fit(0)

    def _fit(self, shift: int, *, cut: bool = False) -> Floats:
        """Agreement of source i with target i + shift; by chance where there is no such line."""
        count = len(self.source)
        start, stop = max(0, -shift), count - max(0, shift)
        inner = agreement(
            self.source.part(start, stop), self.target.part(start + shift, stop + shift), self.ratio
        )
        if cut:
            return inner
        # A line that stands on one side alone was never translated, and blank lines fit everywhere.
        blank = self.source.log_lengths[start:stop] == 0
        blank |= self.target.log_lengths[start + shift : stop + shift] == 0
        nothing = self.chance if shift else float(np.median(inner))
        whole = np.full(count, nothing)
        whole[start:stop] = np.where(blank, nothing, inner)
        return whole

    def runs(self) -> Iterator[Shifted]:
        """Runs that are certain, in their order."""
        taken = np.zeros(len(self.source), np.int64)  # 0: sound, else the shift, or _LOST
        for width in _WINDOWS:
            if width * 2 > len(taken):
                break
            self._take_shifted(width, taken)
        for width in _WINDOWS:
            if width * 2 > len(taken):
                break
            self._take_lost(width, taken)
        for first, last, shift in _stretches(taken):
            found = 0 if shift == _LOST else shift
            yield Shifted(int(self.lines[first]), int(self.lines[last]), found)

    def _take_shifted(self, width: int, taken: NDArray[np.int64]) -> None:
        """Mark the runs in which the pairs of a shift fit, and the pairs themselves do not."""
        step = self.deviation / width**0.5
        straight = _means(self.straight, width)
        lost = straight <= self.chance + _CHANCE * step
        if not lost.any():
            return
        best, which = np.full(len(straight), -np.inf), np.zeros(len(straight), np.int64)
        for shift in (s for size in range(1, MAX_SHIFT + 1) for s in (size, -size)):
            means = _means(self._fit(shift), width)
            better = means > best
            best, which = np.where(better, means, best), np.where(better, shift, which)
        floor = np.maximum(self.chance, straight) + _CERTAIN * step
        which = np.where(lost & (best >= floor), which, 0)
        for start, stop, shift in _stretches(which):
            first, last = self._edges(start, stop + width - 1, shift)
            if not taken[first : last + 1].any():
                taken[first : last + 1] = shift

    def _take_lost(self, width: int, taken: NDArray[np.int64]) -> None:
        """Mark the runs whose pairs have no number in common, but have them in other lines.

        Lengths would not do here: where all lines are short, no pair is of likelier length than
        another.
        """
        sets = self.source.numbers, self.target.numbers
        written = (self.source.log_lengths > 0) & (self.target.log_lengths > 0)
        numbered = written & (sets[0].any(axis=1) | sets[1].any(axis=1))
        telling = numbered.astype(np.float64)
        missed = (numbered & ~(sets[0] & sets[1]).any(axis=1)).astype(np.float64)
        share = min(0.99, 1 - missed.sum() / max(1.0, telling.sum()))
        if share < _SHARED:
            return  # sides that seldom share a number say nothing where they do not
        misses, chances = _means(missed, width) * width, _means(telling, width) * width
        surprise = misses * -np.log(1 - share)
        lost = (misses >= _MISSES * chances) & (surprise >= _SURPRISE)
        for start, stop, _ in _stretches(lost.astype(np.int64)):
            places = start + np.flatnonzero(missed[start : stop + width])
            first, last = int(places[0]), int(places[-1])
            if not taken[first : last + 1].any() and self._reordered(places):
                taken[first : last + 1] = _LOST

    def _reordered(self, places: NDArray[np.int64]) -> bool:
        """Whether the numbers that these pairs miss stand in other pairs of them.

        Where numbers are written out on one side they do not.
        """
        wanted = [tuple(row) for row in self.source.numbers[places].tolist() if any(row)]
        there = {tuple(row) for row in self.target.numbers[places].tolist()}
        found = [row for row in wanted if row in there]
        return len(set(found)) >= _DIFFERENT and len(found) >= _FOUND * len(wanted)

    def _edges(self, first: int, last: int, shift: int) -> tuple[int, int]:
        """Where the shift begins and ends to explain the lines better, around a found run."""
        gain = self._fit(shift) - self.straight
        middle = (first + last) // 2
        return middle - _reach(gain[middle::-1]), middle + _reach(gain[middle:])


def _reach(gain: Floats) -> int:
    """The place up to which gains add up most, before so many are lost that the run has ended."""
    sums = np.cumsum(gain)
    fallen = np.maximum.accumulate(sums) - sums > _END
    end = int(np.argmax(fallen)) if fallen.any() else len(sums)
    return int(np.argmax(sums[:end])) if end else 0


def _means(values: Floats, width: int) -> Floats:
    """The mean of each `width` neighbours."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means: Floats = (sums[width:] - sums[:-width]) / width
    return means


def _stretches(values: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """First and last place of each run of one value that is not 0, and the value."""
    edges = np.flatnonzero(np.diff(values)) + 1
    for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(values)], strict=True):
        if stop > start and values[start]:
            yield start, stop - 1, int(values[start])


def _joined(runs: Iterable[Shifted]) -> Iterator[Shifted]:
    """Runs of one shift that go on across a border of blocks, as one."""
    last: Shifted | None = None
    for run in runs:
        if last and run.shift == last.shift and run.first - last.last <= 4 * MAX_SHIFT:
            last = Shifted(last.first, run.last, run.shift)
            continue
        if last:
            yield last
        last = run
    if last:
        yield last
