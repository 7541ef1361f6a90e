"""Where words begin and end, for everything that looks for whole words."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Scripts written without blanks between words, by the beginning of their characters' names.
_UNSPACED = ("CJK ", "HIRAGANA ", "KATAKANA", "BOPOMOFO ", "THAI ", "LAO ", "KHMER ", "MYANMAR ")


@lru_cache(maxsize=1 << 14)
def joins_words(character: str) -> bool:
    """Whether a word goes on through this character: letters, digits, marks and "_".

    Never in scripts without blanks between words, where every place may be a word's end.
    """
    if not (character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"):
        return False
    return not unicodedata.name(character, "").startswith(_UNSPACED)


def is_word_edge(text: str, place: int) -> bool:
    """Whether a word may begin or end before `text[place]`."""
    return (
        not 0 < place < len(text)
        or not joins_words(text[place - 1])
        or not joins_words(text[place])
    )
