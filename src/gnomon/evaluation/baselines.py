"""What a score must beat to mean anything: two translators that have learned nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError

NGRAM = 3  # characters
CODE_POINT_BITS = 21  # three code points fill 63 bits, so that trigrams are numbers, not hashes


def copy_source(sources: Sequence[str]) -> list[str]:
    """Translate each line by itself."""
    return list(sources)


class NearestLine:
    """Translate a line by the stored translation of the most similar training line.

    Similarity is the cosine of character trigrams weighted by tf-idf, the line's two ends being
    characters of their own and case ignored. Among equally similar lines the first wins, also
    where nothing is similar at all.

    Args:
        sources: training lines, N of them.
        targets: their translations.

    Raises:
        DataError: there is no line, or not as many of one as of the other.
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        if len(sources) != len(targets) or not sources:
            raise DataError(
                "The nearest-line baseline needs training lines, each with its translation.",
                seen=f"{len(sources)} sources, {len(targets)} targets",
            )
        self.targets = targets
        lines, trigrams, counts = _trigram_counts(sources)
        order = np.argsort(trigrams, kind="stable")  # postings by trigram, then by line
        lines, counts = lines[order], counts[order]
        self._trigrams, starts, frequencies = np.unique(
            trigrams[order], return_index=True, return_counts=True
        )
        self._bounds = np.append(starts, len(lines))
        self._idf = np.log(len(sources) / frequencies) + 1.0
        weights = counts * np.repeat(self._idf, frequencies)
        norms = np.sqrt(np.bincount(lines, weights**2, minlength=len(sources)))
        self._lines = lines
        self._weights = weights / norms[lines]

    def nearest(self, sources: Sequence[str]) -> list[int]:
        """Place of the most similar training line, for each source line."""
        lines, trigrams, counts = _trigram_counts(sources)
        known = np.searchsorted(self._trigrams, trigrams).clip(max=len(self._trigrams) - 1)
        found = self._trigrams[known] == trigrams
        lines, known, counts = lines[found], known[found], counts[found]
        bounds = np.searchsorted(lines, np.arange(len(sources) + 1))
        return [
            self._nearest_to(known[start:end], counts[start:end]) for start, end in pairwise(bounds)
        ]

    def translate(self, sources: Sequence[str]) -> list[str]:
        """One training target per source line."""
        return [self.targets[place] for place in self.nearest(sources)]

    def _nearest_to(self, trigrams: NDArray[np.int64], counts: NDArray[np.int64]) -> int:
        """The best line for one query; its own length scales all lines alike and is left out."""
        if len(trigrams) == 0:
            return 0
        spans = [slice(self._bounds[i], self._bounds[i + 1]) for i in trigrams]
        lines = np.concatenate([self._lines[span] for span in spans])
        weights = np.concatenate(
            [
                self._weights[span] * weight
                for span, weight in zip(spans, counts * self._idf[trigrams], strict=True)
            ]
        )
        return int(np.bincount(lines, weights).argmax())


def _trigram_counts(
    texts: Sequence[str],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(line, trigram, count) of every distinct trigram of every line, ordered by line."""
    # A line is framed by NUL, which text never holds once read; a frame takes two places so that
    # even an empty line has a trigram.
    framed = [f"\0{text.casefold()}\0\0" for text in texts]
    joined = "".join(framed).encode("utf-32-le", errors="surrogatepass")
    points = np.frombuffer(joined, dtype="<u4").astype(np.int64)
    lengths = np.fromiter((len(text) for text in framed), dtype=np.int64, count=len(framed))
    line_of = np.repeat(np.arange(len(framed)), lengths)
    trigrams = np.zeros(max(len(points) - NGRAM + 1, 0), dtype=np.int64)
    for offset in range(NGRAM):
        trigrams = trigrams << CODE_POINT_BITS | points[offset : offset + len(trigrams)]
    inside = line_of[: len(trigrams)] == line_of[NGRAM - 1 :]
    lines, trigrams = line_of[: len(trigrams)][inside], trigrams[inside]
    order = np.lexsort((trigrams, lines))
    lines, trigrams = lines[order], trigrams[order]
    first = np.ones(len(lines), dtype=bool)
    first[1:] = (lines[1:] != lines[:-1]) | (trigrams[1:] != trigrams[:-1])
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, len(lines)))
    return lines[starts], trigrams[starts], counts
