"""The words or characters of a text as a reader counts them, and which of them each piece is in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Unit = Literal["words", "characters"]
Span = tuple[int, int]

_WORD = re.compile(r"\S+")
# A letter and the marks upon it are one character to a reader.
_CHARACTER = re.compile(r"[^\s][\u0300-\u036f\u3099\u309a\ufe00-\ufe0f\u200d]*")


def units(text: str, kind: Unit) -> list[Span]:
    """Return the start and end of each unit: runs between white space, or single characters.

    Words are those of `text.split()`. Scripts written without spaces have no other words to
    offer: there, characters are the units that everybody counts alike.
    """
    pattern = _WORD if kind == "words" else _CHARACTER
    return [match.span() for match in pattern.finditer(text)]


def owners(pieces: Sequence[Span], spans: Sequence[Span], length: int) -> list[int]:
    """Return for each piece the number of the unit in which its text begins; -1 for none.

    White space before a word belongs to the piece but to no unit. A piece that reaches over
    several units counts for the first.

    Args:
        pieces: of `Tokenizer.spans`.
        spans: of `units`.
        length: of the text, in characters.
    """
    unit_at = [-1] * length
    for number, (start, end) in enumerate(spans):
        unit_at[start:end] = [number] * (end - start)
    return [next((unit for unit in unit_at[start:end] if unit >= 0), -1) for start, end in pieces]
