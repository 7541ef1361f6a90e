"""Sources as people really type them: each perturbation is a pure function of lines and a seed.

A line's result depends on the line and the seed alone, not on its place or its neighbours. Line
breaks are neither added nor removed.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

View = Literal["plain", "lowercase", "no_punctuation"]

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
NUMBER = re.compile(r"[0-9]+")
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


@dataclass(frozen=True)
class Perturbation:
    """One way to change every source.

    Attributes:
        name: as reports show it.
        change: (line, random numbers of this line) → line.
        view: what is compared. Where the source loses case or punctuation, outputs and references
            are compared without it, clean outputs as well, so that only lost meaning counts.
        needs: what a text must have for the change to do anything, for the reason of a skip.
    """

    name: str
    change: Callable[[str, random.Random], str]
    view: View
    needs: str

    def __call__(self, lines: Sequence[str], seed: int) -> list[str]:
        """All lines changed, one for one."""
        return [self.change(line, random.Random(f"{seed} {line}")) for line in lines]


def without_punctuation(line: str) -> str:
    """The line without punctuation marks, apostrophes and hyphens inside words aside."""
    kept = []
    for place, char in enumerate(line):
        inside = (
            char in "'’-"
            and 0 < place < len(line) - 1
            and line[place - 1].isalnum()
            and line[place + 1].isalnum()
        )
        if inside or not unicodedata.category(char).startswith("P"):
            kept.append(char)
    return _same_ends(line, re.sub(" {2,}", " ", "".join(kept)))


def with_typos(line: str, rng: random.Random) -> str:
    """Some words with two letters swapped, one left out, one doubled or its neighbour's key."""
    words = list(re.finditer(r"[^\W\d_]{4,}", line))
    if not words:
        return line
    chosen = [found for found in words if rng.random() < TYPO_RATE] or [rng.choice(words)]
    for found in reversed(chosen):
        line = line[: found.start()] + _misspelt(found.group(), rng) + line[found.end() :]
    return line


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


def with_extra_blanks(line: str, rng: random.Random) -> str:
    """Some blanks doubled or tripled, and one more at either end."""
    if not line.strip():
        return line
    spaced = re.sub(" ", lambda _: " " * rng.choice((1, 2, 3)), line)
    return f" {spaced} "


def with_other_numbers(line: str, rng: random.Random) -> str:
    """Each number replaced by another of as many digits, without a leading zero of its own making.

    The same number in a line becomes the same other number.
    """
    chosen: dict[str, str] = {}

    def other(found: re.Match[str]) -> str:
        old = found.group()
        if old not in chosen:
            low = 0 if len(old) == 1 or old.startswith("0") else 10 ** (len(old) - 1)
            new = rng.randrange(low, 10 ** len(old) - 1)
            new += new >= int(old)  # every number of that many digits but the old one
            chosen[old] = str(new).zfill(len(old))
        return chosen[old]

    return NUMBER.sub(other, line)


def numbers(line: str) -> set[str]:
    """The digit strings of a line, leading zeros and separators between groups aside."""
    return set(NUMBER.findall(re.sub(r"(?<=[0-9])[.,  ](?=[0-9]{3}(?![0-9]))", "", line)))


def single_words(lines: Sequence[str], limit: int = 200) -> list[str]:
    """The different words of the lines, in order of appearance, at most `limit` of them."""
    found: dict[str, None] = {}
    for line in lines:
        for word in WORD.findall(line):
            if len(found) == limit:
                return list(found)
            found.setdefault(word)
    return list(found)


def view_of(lines: Sequence[str], view: View) -> list[str]:
    """The lines as they are compared."""
    if view == "lowercase":
        return [line.lower() for line in lines]
    if view == "no_punctuation":
        return [without_punctuation(line) for line in lines]
    return list(lines)


def _title(line: str) -> str:
    """Each word with a capital; `str.title` would write "Don'T"."""
    return WORD.sub(lambda found: found.group()[:1].upper() + found.group()[1:].lower(), line)


def _same_ends(line: str, changed: str) -> str:
    """`changed` without blanks at its ends that were not there before."""
    if not line[:1].isspace():
        changed = changed.lstrip()
    return changed if line[-1:].isspace() else changed.rstrip()


PERTURBATIONS = (
    Perturbation("upper case", lambda line, _: line.upper(), "lowercase", "lower-case letters"),
    Perturbation("lower case", lambda line, _: line.lower(), "lowercase", "capital letters"),
    Perturbation("title case", lambda line, _: _title(line), "lowercase", "letters with case"),
    Perturbation(
        "no punctuation",
        lambda line, _: without_punctuation(line),
        "no_punctuation",
        "punctuation marks",
    ),
    Perturbation("typos", with_typos, "plain", "words of four letters and more"),
    Perturbation("extra blanks", with_extra_blanks, "plain", "text"),
)
OTHER_NUMBERS = Perturbation("other numbers", with_other_numbers, "plain", "numbers")
