"""Where two files that should run in parallel stop doing so.

Lines that are each other's translation are of like length, hold the same numbers and names and
end in like punctuation. Where a line is missing on one side, all that holds again a line further
on: the place is found as the cheapest path that may step from one shift of the files to another.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gnomon.text.lines import read_lines

_MAX_SHIFTS = 16  # numbers of missing lines that are told apart
_STEP_COST = 8.0  # evidence that a step must bring, in units of `agreement`
_SIGNATURE_BITS = 128
# Thousands may be set apart, "27,034" or "27 034"; NFKC has made all blanks one.
_NUMBERS = re.compile(r"\d{1,3}(?:[ .,'’]\d{3})+(?!\d)|\d+")
_SEPARATORS = str.maketrans("", "", " .,'’")
_WORDS = re.compile(r"[^\W\d_]{4,}")
_SHOWN = 70  # characters of a line in a message


@dataclass(frozen=True)
class Divergence:
    """The first line from which the files do not match any more."""

    line: int  # in both files, from 1
    source: str | None  # the text there, None past the end of the file
    target: str | None

    def describe(self, files: Sequence[Path]) -> str:
        """Return the place and the two texts, shortened, on three lines."""
        shown = [
            f"    {file}: {'(ends before)' if text is None else _shortened(text)}"
            for file, text in zip(files, (self.source, self.target), strict=True)
        ]
        return "\n".join([f"they stop matching at about line {self.line:,}:", *shown])


def find_divergence(source: Path, target: Path) -> Divergence:
    """Return where two files of unequal length stop matching, as well as can be told.

    Memory: some 50 bytes a line; the text itself is not kept.
    """
    traits = [LineTraits.of(read_lines(file, errors="replace")) for file in (source, target)]
    swapped = len(traits[0]) < len(traits[1])
    long, short = reversed(traits) if swapped else traits
    line = _first_step(long, short) + 1
    return Divergence(line, _line_at(source, line), _line_at(target, line))


class LineTraits:
    """What is compared of each line, to tell which lines of two files belong together."""

    def __init__(
        self,
        log_lengths: NDArray[np.float32],
        endings: NDArray[np.uint32],
        numbers: NDArray[np.uint64],
        words: NDArray[np.uint64],
    ) -> None:
        self.log_lengths = log_lengths  # [num_lines], 0 where blank
        self.endings = endings  # [num_lines], class of the last character
        self.numbers = numbers  # [num_lines, 2], a set of hashes in 128 bits
        self.words = words  # [num_lines, 2], likewise: the first four letters of long words

    def __len__(self) -> int:
        return len(self.log_lengths)

    @classmethod
    def of(cls, lines: Iterable[str]) -> LineTraits:
        """The traits of lines, in their order."""
        log_lengths: list[float] = []
        endings: list[int] = []
        signatures = bytearray()
        for line in lines:
            text = unicodedata.normalize("NFKC", line).strip()
            log_lengths.append(float(np.log1p(len(text))))
            endings.append(_ending(text))
            signatures += _signature([n.translate(_SEPARATORS) for n in _NUMBERS.findall(text)])
            signatures += _signature([word[:4] for word in _WORDS.findall(text.casefold())])
        both = np.frombuffer(bytes(signatures), np.uint64).reshape(-1, 2, 2)
        return cls(
            np.array(log_lengths, np.float32),
            np.array(endings, np.uint32),
            both[:, 0],
            both[:, 1],
        )

    def part(self, start: int, stop: int) -> LineTraits:
        """Those of the lines from `start` to before `stop`."""
        here = slice(start, stop)
        return LineTraits(
            self.log_lengths[here], self.endings[here], self.numbers[here], self.words[here]
        )


def _first_step(long: LineTraits, short: LineTraits) -> int:
    """Return the index from which `long` has lines that `short` has not."""
    if len(short) == 0:
        return 0
    missing = len(long) - len(short)
    ratio = float(np.median(long.log_lengths) - np.median(short.log_lengths))
    arange = np.arange(len(short) + 1)
    # best[i]: evidence of the best path over the first i lines; left[i]: where it left shift 0.
    best, left = np.zeros(0), arange
    for shift in sorted({*range(min(missing, _MAX_SHIFTS) + 1), missing}):
        fit = agreement(long.part(shift, shift + len(short)), short, ratio)
        evidence = np.concatenate([[0.0], np.cumsum(fit)])
        if shift == 0:
            best = evidence
            continue
        gain = best - evidence
        record = np.maximum.accumulate(gain)
        came_from = np.maximum.accumulate(np.where(gain == record, arange, 0))
        stepped = evidence + gain[came_from] - _STEP_COST
        # Stepping at the very end explains nothing: there the long file just has more lines.
        better = stepped > best
        best, left = np.where(better, stepped, best), np.where(better, left[came_from], left)
    return int(left[-1])


def agreement(one: LineTraits, other: LineTraits, ratio: float) -> NDArray[np.float64]:
    """Return how well line i of `one` fits line i of `other`; 0 is neither well nor badly."""
    blank = (one.log_lengths == 0).astype(int) + (other.log_lengths == 0)
    lengths = 0.5 - np.minimum(2 * np.abs(one.log_lengths - other.log_lengths - ratio), 2)
    endings = np.where(one.endings == other.endings, 0.25, -0.5)
    written = lengths + endings + _shared(one.numbers, other.numbers, 1.5)
    written += _shared(one.words, other.words, 0.0)
    return np.select([blank == 2, blank == 1], [2.0, -4.0], written)


def _shared(one: NDArray[np.uint64], other: NDArray[np.uint64], miss: float) -> NDArray[np.float64]:
    """Return 0..2 for the share of hashes that two sets have in common, less `miss` if none."""
    common = np.bitwise_count(one & other).sum(axis=1)
    sizes = [np.bitwise_count(sets).sum(axis=1) for sets in (one, other)]
    share = common / np.maximum(1, np.maximum(*sizes))
    either = np.maximum(*sizes) > 0
    scores: NDArray[np.float64] = 2.0 * share - np.where(either & (common == 0), miss, 0.0)
    return scores


def _signature(items: list[str]) -> bytes:
    bits = 0
    for item in items:
        bits |= 1 << (zlib.crc32(item.encode("utf-8", "surrogatepass")) % _SIGNATURE_BITS)
    return bits.to_bytes(_SIGNATURE_BITS // 8, "little")


def _ending(text: str) -> int:
    """Class of the last character: full stops of all scripts are one, and so are all letters."""
    last = text[-1:]
    if last in "。．।۔":
        last = "."
    return ord(last) if last and unicodedata.category(last)[0] in "PS" else 0


def _line_at(file: Path, line: int) -> str | None:
    return next(islice(read_lines(file, errors="replace"), line - 1, None), None)


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
