"""Scripts of the Unicode standard by ranges of their letters (Scripts.txt, its main blocks), and
where words begin and end in them."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "Latin": (
        *((0x41, 0x5A), (0x61, 0x7A), (0xAA, 0xAA), (0xBA, 0xBA), (0xC0, 0x24F), (0x250, 0x2B8)),
        *((0x1D00, 0x1D25), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F), (0xA722, 0xA7FF)),
        *((0xAB30, 0xAB64), (0xFB00, 0xFB06), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A)),
    ),
    "Greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Armenian": ((0x530, 0x58F), (0xFB13, 0xFB17)),
    "Hebrew": ((0x590, 0x5FF), (0xFB1D, 0xFB4F)),
    "Arabic": (
        *((0x600, 0x6FF), (0x750, 0x77F), (0x870, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFC)),
    ),
    "Syriac": ((0x700, 0x74F),),
    "Thaana": ((0x780, 0x7BF),),
    "Devanagari": ((0x900, 0x97F), (0xA8E0, 0xA8FF)),
    "Bengali": ((0x980, 0x9FF),),
    "Gurmukhi": ((0xA00, 0xA7F),),
    "Gujarati": ((0xA80, 0xAFF),),
    "Oriya": ((0xB00, 0xB7F),),
    "Tamil": ((0xB80, 0xBFF),),
    "Telugu": ((0xC00, 0xC7F),),
    "Kannada": ((0xC80, 0xCFF),),
    "Malayalam": ((0xD00, 0xD7F),),
    "Sinhala": ((0xD80, 0xDFF),),
    "Thai": ((0xE00, 0xE7F),),
    "Lao": ((0xE80, 0xEFF),),
    "Tibetan": ((0xF00, 0xFFF),),
    "Myanmar": ((0x1000, 0x109F), (0xA9E0, 0xA9FE), (0xAA60, 0xAA7F)),
    "Georgian": ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "Hangul": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF)),
    "Ethiopic": ((0x1200, 0x139F), (0x2D80, 0x2DDF), (0xAB00, 0xAB2F)),
    "Cherokee": ((0x13A0, 0x13FF), (0xAB70, 0xABBF)),
    "Khmer": ((0x1780, 0x17FF),),
    "Mongolian": ((0x1800, 0x18AF),),
    "Hiragana": ((0x3040, 0x309F),),
    "Katakana": ((0x30A0, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9D)),
    "Bopomofo": ((0x3100, 0x312F), (0x31A0, 0x31BF)),
    "Han": (
        *((0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF)),
        *((0xF900, 0xFAFF), (0x20000, 0x323AF)),
    ),
}
SCRIPTS = tuple(_RANGES)
"""Names of the scripts that can be told apart."""
UNSPACED = ("Han", "Hiragana", "Katakana", "Bopomofo", "Thai", "Lao", "Khmer", "Myanmar")
"""Those written without blanks between words."""


def script_of(character: str) -> str | None:
    """Return the script that a letter belongs to, None where no listed one holds it."""
    code = ord(character)
    for name, ranges in _RANGES.items():
        for first, last in ranges:
            if first <= code <= last:
                return name
    return None


@lru_cache(maxsize=1 << 14)
def joins_words(character: str) -> bool:
    """Whether a word goes on through this character: letters, digits, marks and "_".

    Never in scripts without blanks between words, where every place may be a word's end.
    """
    if not (character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"):
        return False
    return script_of(character) not in UNSPACED


def is_word_edge(text: str, place: int) -> bool:
    """Whether a word may begin or end before `text[place]`."""
    return (
        not 0 < place < len(text)
        or not joins_words(text[place - 1])
        or not joins_words(text[place])
    )
