"""How often something occurs in a text, and in which lines it does first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

NUM_NAMED = 5  # lines


@dataclass
class Occurrences:
    """A count of lines, of which the first few are named."""

    count: int = 0
    first_lines: list[int] = field(default_factory=list)  # numbers from 1

    @classmethod
    def at(cls, lines: Iterable[int]) -> Occurrences:
        """All these lines, in their order."""
        found = cls()
        for line in lines:
            found.add(line)
        return found

    def add(self, line: int) -> None:
        """Count one line."""
        self.count += 1
        if len(self.first_lines) < NUM_NAMED:
            self.first_lines.append(line)

    def add_all(self, others: Occurrences, start: int) -> None:
        """Count those of a text that begins after line `start` of this one."""
        self.count += others.count
        self.first_lines += [start + line for line in others.first_lines]
        del self.first_lines[NUM_NAMED:]
