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

from gnomon.text.perturb import (
    WORD,
    lower_case,
    title_case,
    upper_case,
    with_extra_blanks,
    with_typos,
)

View = Literal["plain", "lowercase", "no_punctuation"]

NUMBER = re.compile(r"[0-9]+")


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


def _same_ends(line: str, changed: str) -> str:
    """`changed` without blanks at its ends that were not there before."""
    if not line[:1].isspace():
        changed = changed.lstrip()
    return changed if line[-1:].isspace() else changed.rstrip()


PERTURBATIONS = (
    Perturbation("upper case", lambda line, _: upper_case(line), "lowercase", "lower-case letters"),
    Perturbation("lower case", lambda line, _: lower_case(line), "lowercase", "capital letters"),
    Perturbation("title case", lambda line, _: title_case(line), "lowercase", "letters with case"),
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
