"""How text is written, as shares of its lines: what cleaning or a tokenizer leaves behind."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable

_ESCAPED = re.compile(r"&(?:quot|apos|amp|#\d+);")

# Habit → whether a line shows it. Each is a step that may be done on one text and not on another.
HABITS: dict[str, Callable[[str], bool]] = {
    "capital letters": lambda line: line != line.lower(),
    "blanks before punctuation": lambda line: bool(re.search(r"\w [.,!?;:]", line)),
    "marks of subwords (@@, ▁, ##)": lambda line: bool(re.search(r"@@( |$)|▁|(^| )##\w", line)),
    "escaped characters (&quot; …)": lambda line: bool(_ESCAPED.search(line)),
    "accents in one character": lambda line: _composes(line),
    "accents in a character of their own": lambda line: _decomposes(line),
}


def _composes(line: str) -> bool:
    return any(unicodedata.decomposition(char)[:1].isalnum() for char in line if ord(char) > 127)


def _decomposes(line: str) -> bool:
    return any(unicodedata.combining(char) for char in line)


def shares(lines: Iterable[str]) -> tuple[int, dict[str, float]]:
    """How many lines there are, and the share of them that shows each habit."""
    counts, total = dict.fromkeys(HABITS, 0), 0
    for line in lines:
        total += 1
        for name, shows in HABITS.items():
            counts[name] += shows(line)
    return total, {name: count / max(1, total) for name, count in counts.items()}
