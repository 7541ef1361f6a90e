"""Text as people really type it; for training with it (`augmentation`) and for evaluating on it.

Each function is pure: what is left to chance comes from the random numbers it is given. None adds
or removes a line break. What is copied rather than typed (placeholders, markup, addresses, names
with digits) stays as it is.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Iterator

KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
NEIGHBOURS = {
    key: "".join(
        other
        for near, line in enumerate(KEYBOARD)
        for far, other in enumerate(line)
        if other != key and abs(near - row) <= 1 and abs(far - column) <= 1
    )
    for row, keys in enumerate(KEYBOARD)
    for column, key in enumerate(keys)
}
TYPO_RATE = 0.1  # of the words of four letters and more; at least one in each line that has one
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")

_LETTERS = re.compile(r"[^\W\d_]{4,}")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
# Bounds on the lengths keep the time linear in a line's.
_PLACEHOLDER = r"\{[^{}\n]{0,100}\}|</?[A-Za-z][^<>\n]{0,300}>"
_PIECE = re.compile(rf"{_PLACEHOLDER}|(?:(?!{_PLACEHOLDER})[^\s{_UNSPACED}])+")
_COPIED = re.compile(r"[\d@_\\/%{}<>&]|\w\.\w\w")
_LONGEST_WORD = 60  # characters
_LONGEST_UNSPACED = 4

_FINAL = ".!?…。！？．｡।։؟۔"


def upper_case(line: str) -> str:
    """The line in capitals."""
    return _typed(line, str.upper)


def lower_case(line: str) -> str:
    """The line without capitals."""
    return _typed(line, str.lower)


def title_case(line: str) -> str:
    """Each word with a capital; `str.title` would write "Don'T"."""
    return _typed(line, lambda part: WORD.sub(_capitalised, part))


def with_typos(line: str, rng: random.Random) -> str:
    """Some words with two letters swapped, one left out, one doubled or its neighbour's key."""
    seen = "".join(part if typed else "0" * len(part) for part, typed in _parts(line))
    words = list(_LETTERS.finditer(seen))
    if not words:
        return line
    chosen = [found for found in words if rng.random() < TYPO_RATE] or [rng.choice(words)]
    for found in reversed(chosen):
        line = line[: found.start()] + _misspelt(found.group(), rng) + line[found.end() :]
    return line


def with_extra_blanks(line: str, rng: random.Random) -> str:
    """Some blanks doubled or tripled, and one more at either end."""
    if not line.strip():
        return line
    spaced = re.sub(" ", lambda _: " " * rng.choice((1, 2, 3)), line)
    return f" {spaced} "


def without_final_mark(line: str) -> str:
    """The line without the marks that end its last sentence, unless it is nothing else."""
    ended = line.rstrip()
    bare = ended.rstrip(_FINAL).rstrip()
    return bare + line[len(ended) :] if bare and bare != ended else line


def is_single_word(text: str) -> bool:
    """Whether a text is one word, with or without marks around it.

    In scripts without blanks between words, up to four letters are taken for one.
    """
    text = text.strip()
    if len(text) > _LONGEST_WORD:
        return False
    kinds = "".join(unicodedata.category(char)[0] for char in text)
    start, end = kinds.find("L"), 1 + max(kinds.rfind("L"), kinds.rfind("M"))
    if start < 0 or not set(kinds[:start] + kinds[end:]) <= {"P"}:
        return False
    word = text[start:end]
    if any(
        kind not in "LM" and char not in "'’-"
        for kind, char in zip(kinds[start:end], word, strict=True)
    ):
        return False
    return kinds.count("L") <= _LONGEST_UNSPACED or re.search(f"[{_UNSPACED}]", word) is None


def _parts(line: str) -> Iterator[tuple[str, bool]]:
    """The line in parts, each with whether it was typed and not copied."""
    end = 0
    for found in _PIECE.finditer(line):
        yield line[end : found.start()], True
        yield found.group(), _COPIED.search(found.group()) is None
        end = found.end()
    yield line[end:], True


def _typed(line: str, change: Callable[[str], str]) -> str:
    return "".join(change(part) if typed else part for part, typed in _parts(line))


def _capitalised(found: re.Match[str]) -> str:
    return found.group()[:1].upper() + found.group()[1:].lower()


def _misspelt(word: str, rng: random.Random) -> str:
    place = rng.randrange(1, len(word) - 1)  # first and last letters are seldom wrong
    letter = word[place]
    kind = rng.choice(("swap", "drop", "double", "neighbour"))
    if kind == "neighbour" and letter.lower() in NEIGHBOURS:
        other = rng.choice(NEIGHBOURS[letter.lower()])
        return word[:place] + (other.upper() if letter.isupper() else other) + word[place + 1 :]
    if kind == "swap" and place < len(word) - 2 and letter != word[place + 1]:
        return word[:place] + word[place + 1] + letter + word[place + 2 :]
    if kind == "drop":
        return word[:place] + word[place + 1 :]
    return word[:place] + letter + word[place:]
