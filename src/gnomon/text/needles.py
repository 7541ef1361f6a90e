"""Documents that say which name goes with which value and ask for one of them far behind.

All words are made up of syllables, so that no model knows them by heart and whoever answers has
looked: three fixed lists, which a small vocabulary can learn whole. What stands between the pairs
always goes on in the same way, so that a model in training has nothing else to learn there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

_SYLLABLES = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
_NUM_NAMED = 64


def _words() -> list[str]:
    """Words of two syllables, each syllable about as often as any other."""
    size = len(_SYLLABLES)
    return [
        _SYLLABLES[(9 * n) % size] + _SYLLABLES[(11 * n + n // size) % size] for n in range(144)
    ]


NAMES, VALUES = _words()[:_NUM_NAMED], _words()[_NUM_NAMED : 2 * _NUM_NAMED]
FILLER = _words()[2 * _NUM_NAMED :]
"""In the order in which they follow one another, round and round."""


@dataclass(frozen=True)
class NeedleDocument:
    """A document and the question at its end.

    Attributes:
        before: words that stand before the pairs.
        pairs: names and their values, stated one after another.
        asked: which pair is asked for.
        after: words between the pairs and the question.
    """

    before: Sequence[str]
    pairs: Sequence[tuple[str, str]]
    asked: int
    after: Sequence[str]

    @property
    def to_value(self) -> str:
        """The text up to the value that is asked for, where it is stated."""
        stated = [statement(*pair) for pair in self.pairs[: self.asked]]
        return " ".join([*self.before, *stated, self.question])

    @property
    def question(self) -> str:
        """How the document ends."""
        return f"{self.pairs[self.asked][0]} is"

    @property
    def prompt(self) -> str:
        """All that stands before the answer."""
        stated = [statement(*pair) for pair in self.pairs]
        return " ".join([*self.before, *stated, *self.after, self.question])

    @property
    def answer(self) -> str:
        """What goes on from the prompt, blank included."""
        return f" {self.pairs[self.asked][1]}"

    @property
    def shuffled(self) -> NeedleDocument:
        """The same words, but each name has the next one's value: its answer is another."""
        names, values = zip(*self.pairs, strict=True)
        return replace(self, pairs=list(zip(names, [*values[1:], values[0]], strict=True)))


def statement(name: str, value: str) -> str:
    """How a pair is stated."""
    return f"{name} is {value}."


def draw_pairs(draw: Random, count: int) -> list[tuple[str, str]]:
    """So many names and their values, none twice."""
    return list(zip(draw.sample(NAMES, count), draw.sample(VALUES, count), strict=True))


def filler(draw: Random, count: int, words: Sequence[str] = FILLER) -> list[str]:
    """So many words of a list, one after another from anywhere in it."""
    start = draw.randrange(len(words))
    return [words[(start + place) % len(words)] for place in range(count)]


def needle_texts(count: int, *, num_words: int, num_pairs: int, seed: int) -> Iterator[str]:
    """Texts to learn the task from: pairs are stated, and stated again among other words.

    A text has chapters with pairs of their own, dense ones, from which a model learns to look, and
    thin ones, from which it learns to look far.

    Args:
        count: how many texts.
        num_words: of each, about.
        num_pairs: of each chapter, at most 64.
        seed: which ones.
    """
    for number in range(count):
        draw = Random(f"{seed} {number}")
        words: list[str] = []
        while len(words) < num_words:
            pairs = draw_pairs(draw, num_pairs)
            words += [statement(*pair) for pair in pairs]
            gap = draw.choice((1, 4, 16, 64))
            for _ in range(max(1, 128 // (gap + 2))):
                words += filler(draw, draw.randrange(2 * gap))
                words.append(statement(*draw.choice(pairs)))
        yield " ".join(words)
