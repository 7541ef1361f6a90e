"""One source of parallel text: its files, read as pairs of texts in whatever format they have."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from gnomon.errors import DataError
from gnomon.files import sha256_of
from gnomon.text.alignment import find_divergence
from gnomon.text.lines import check_readable, check_rereadable, count_lines, in_step, read_lines
from gnomon.text.occurrences import Occurrences
from gnomon.text.pair_files import PairFile, Texts
from gnomon.text.sources import SourceConfig


class TextSource:
    """The pairs of one source; nothing is kept but where they are.

    Args:
        config: its files, tags and weight.

    Raises:
        DataError: a file does not exist or cannot be read.
    """

    def __init__(self, config: SourceConfig) -> None:
        self.config = config
        self.files = tuple(Path(file) for file in config.files)
        for file in self.files:
            check_rereadable(file)
            check_readable(file, allow_empty=False)

    def __str__(self) -> str:
        return self.config.name or " and ".join(map(str, self.files))

    def count(self) -> int:
        """Return how many pairs there are.

        Raises:
            DataError: the files cannot be read to their end, are empty, or do not run in parallel.
        """
        pair_file = self._pair_file
        counts = [pair_file.count()] if pair_file else [count_lines(file) for file in self.files]
        for count, file in zip(counts, self.files, strict=True):
            if count == 0:
                raise DataError(
                    "a text file must not be empty", seen=file, mend="name the right file"
                )
        if len(set(counts)) > 1:
            for file in self.files:  # what is no text at all has another number of lines, too
                deque(read_lines(file), maxlen=0)
            place = find_divergence(*self.files).describe(self.files)
            seen = ", ".join(
                f"{file}: {count:,} lines" for file, count in zip(self.files, counts, strict=True)
            )
            raise DataError(
                "source and target must have the same number of lines, as line i translates line i",
                seen=f"{seen}; {place}",
                mend="look there for a line that is missing, or split in two, on one side",
            )
        return counts[0]

    def rows(self, breaks: Occurrences | None = None) -> Iterator[Texts]:
        """Iterate over source and target of every line.

        Raises:
            DataError: a line is not valid text, or not one pair.
        """
        if pair_file := self._pair_file:
            return pair_file.rows(breaks)
        source, target = self.files
        return in_step(read_lines(source), read_lines(target))

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of the files' bytes, of the tags, and of how fields are picked."""
        digest = sha256_of(*self.files)
        reading: list[object] = list(self.config.tags)
        if (pair_file := self._pair_file) and pair_file.kind != "tsv":
            reading += [pair_file.kind, pair_file.source_field, pair_file.target_field]
        return hashlib.sha256(f"{digest} {reading}".encode()).hexdigest() if reading else digest

    @cached_property
    def _pair_file(self) -> PairFile | None:
        config = self.config
        if config.pairs is None:
            return None
        return PairFile(self.files[0], config.format, config.source_field, config.target_field)
