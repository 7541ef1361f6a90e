"""Warnings about single lines: the first of each kind by line, the rest counted."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gnomon.cli.console import warn

NAMED = 10


class LineWarnings:
    """Says what the user should know of single lines while it is rare, then counts.

    A weak model would otherwise bury everything else that is said under a line per output.

    Args:
        kinds: of warnings: the end of the sentence that says how many lines there were.
        always: kinds of which even a few are counted.
    """

    def __init__(self, kinds: Mapping[str, str], *, always: Collection[str] = ()) -> None:
        self.kinds = kinds
        self.always = always
        self.counts = dict.fromkeys(kinds, 0)

    def add(self, kind: str, text: str) -> None:
        """Count a line, and say `text` of it if it is among the first."""
        self.counts[kind] += 1
        if self.counts[kind] <= NAMED:
            warn(text)

    def finish(self, num_lines: int) -> None:
        """Say how many of all lines there were, where not all of them were named."""
        for kind, count in self.counts.items():
            if count > NAMED or (count and kind in self.always):
                only = f"; only the first {NAMED} are named" if count > NAMED else ""
                warn(f"{count:,} of {num_lines:,} {self.kinds[kind]}{only}")
