"""The filters: each finds the pairs of a chunk that show one reason, and says what it saw."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.text.cleaning import EMPTY_SIDE, CleaningConfig
from gnomon.text.cleaning_controls import is_control
from gnomon.text.cleaning_language import language_filter
from gnomon.text.cleaning_traits import Traits
from gnomon.text.corpus import Pair

_MIN_DIFFERENCE = 5  # words by which sides must differ before their ratio says anything
_MIN_SHARE_OF_SCRIPT = 0.5
# UTF-8 that was read as Latin-1 or Windows-1252: a lead byte as a letter, then what the following
# byte became; or a C1 control, which nobody writes but for U+0085. "Ã" before a small letter or a
# quotation mark is a Portuguese word and not taken.
_MOJIBAKE = re.compile(
    "[ÃÂ][¡-ª¬-º¼-¿]|[\u0080-\u0084\u0086-\u009f]|â€[\u2018-\u203a™¢œž]|(?:[ÐÑØÙ][\u00a0-\u00bf]){2}"
)
_MOJIBAKE_LEADS = ("Ã", "Â", "â€", "Ð", "Ñ", "Ø", "Ù")


class Sight(NamedTuple):
    """What a filter saw."""

    row: int  # of the chunk
    detail: str


class Chunk:
    """Some pairs and what is counted about them."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs

    @cached_property
    def source(self) -> Traits:
        """Counts of the sources."""
        return Traits([pair.source for pair in self.pairs])

    @cached_property
    def target(self) -> Traits:
        """Counts of the targets."""
        return Traits([pair.target for pair in self.pairs])

    @property
    def sides(self) -> tuple[tuple[str, Traits], tuple[str, Traits]]:
        """Both, with their names."""
        return ("source", self.source), ("target", self.target)

    def text(self, side: str, row: int) -> str:
        """The text of one side of a pair."""
        pair = self.pairs[row]
        return pair.source if side == "source" else pair.target


Filter = Callable[[Chunk, CleaningConfig], Iterator[Sight]]


def empty_side(chunk: Chunk, _: CleaningConfig) -> Iterator[Sight]:
    """Nothing but blanks and control characters on a side."""
    for side, traits in chunk.sides:
        for row in _rows(traits.num_written == 0):
            yield Sight(row, side)


def control_characters(chunk: Chunk, _: CleaningConfig) -> Iterator[Sight]:
    """Characters that steer and say nothing; see `cleaning_controls`."""
    for side, traits in chunk.sides:
        for row in _rows(traits.num_controls > 0):
            codes = sorted({ord(char) for char in chunk.text(side, row) if is_control(char)})
            yield Sight(row, f"{side}: {' '.join(f'U+{code:04X}' for code in codes[:5])}")


def encoding_damage(chunk: Chunk, _: CleaningConfig) -> Iterator[Sight]:
    """U+FFFD, or UTF-8 that was read as another encoding."""
    for side, traits in chunk.sides:
        for row in _rows(traits.num_replacements > 0):
            yield Sight(row, f"{side}: U+FFFD")
        texts = [chunk.text(side, row) for row in range(len(chunk.pairs))]
        joined = "\n".join(texts)
        if not (traits.num_controls.any() or any(lead in joined for lead in _MOJIBAKE_LEADS)):
            continue
        for row, text in enumerate(texts):
            if not text.isascii() and (found := _MOJIBAKE.search(text)):
                yield Sight(row, f"{side}: {found[0]!a}")


def identical_sides(chunk: Chunk, _: CleaningConfig) -> Iterator[Sight]:
    """Source and target are the same text, blanks around it aside."""
    for row, pair in enumerate(chunk.pairs):
        if pair.source == pair.target or pair.source.strip() == pair.target.strip():
            yield Sight(row, "")


def length_ratio(chunk: Chunk, config: CleaningConfig) -> Iterator[Sight]:
    """One side has many times the words of the other."""
    source, target = chunk.source.num_words, chunk.target.num_words
    longer, shorter = np.maximum(source, target), np.minimum(source, target)
    far = (longer > config.max_length_ratio * shorter) & (longer - shorter > _MIN_DIFFERENCE)
    for row in _rows(far):
        yield Sight(row, f"{source[row]:g} and {target[row]:g} words")


def too_long(chunk: Chunk, config: CleaningConfig) -> Iterator[Sight]:
    """More words or characters than a sentence has."""
    for side, traits in chunk.sides:
        long = traits.num_characters > config.max_characters
        for row in _rows(long | (traits.num_words > config.max_words)):
            words, characters = traits.num_words[row], traits.num_characters[row]
            yield Sight(row, f"{side}: {words:g} words, {characters} characters")


def few_letters(chunk: Chunk, config: CleaningConfig) -> Iterator[Sight]:
    """Mostly digits, punctuation and symbols."""
    for side, traits in chunk.sides:
        for row in _rows(traits.num_letters < config.min_letters * traits.num_written):
            share = traits.num_letters[row] / traits.num_written[row]
            yield Sight(row, f"{side}: {share:.0%} letters")


def repeated_words(chunk: Chunk, config: CleaningConfig) -> Iterator[Sight]:
    """A word that follows itself again and again."""
    for side, traits in chunk.sides:
        for row in traits.may_repeat(config.max_repeats + 1).tolist():
            runs = [(len(list(run)), w) for w, run in groupby(chunk.text(side, row).split())]
            times, word = max(runs, key=lambda run: run[0])
            if times > config.max_repeats:
                yield Sight(row, f"{side}: {word[:20]!r} {times} times")


def numbers_differ(chunk: Chunk, _: CleaningConfig) -> Iterator[Sight]:
    """Other digits on one side than on the other; where one side has none, nothing is said."""
    source, target = chunk.source.digits, chunk.target.digits
    both = source.any(axis=1) & target.any(axis=1)
    for row in _rows(both & (source != target).any(axis=1)):
        pair = chunk.pairs[row]
        yield Sight(row, f"{_numbers(pair.source)} and {_numbers(pair.target)}")


def wrong_script(chunk: Chunk, config: CleaningConfig) -> Iterator[Sight]:
    """Most letters are of another script than those that are expected."""
    wanted = {"source": config.source_scripts, "target": config.target_scripts}
    for side, traits in chunk.sides:
        if not wanted[side]:
            continue
        here = traits.num_letters_in(wanted[side])
        for row in _rows(here < _MIN_SHARE_OF_SCRIPT * traits.num_letters):
            share = here[row] / traits.num_letters[row]
            yield Sight(row, f"{side}: {share:.0%} {' or '.join(wanted[side])}")


def wrong_language(chunk: Chunk, config: CleaningConfig) -> Iterator[Sight]:
    """A language other than the one that is expected."""
    for side, language in (("source", config.source_language), ("target", config.target_language)):
        if not language:
            continue
        other = language_filter(language)
        for row in range(len(chunk.pairs)):
            if found := other(chunk.text(side, row)):
                yield Sight(row, f"{side}: {found}")


FILTERS: dict[str, Filter] = {
    EMPTY_SIDE: empty_side,
    "control_characters": control_characters,
    "encoding_damage": encoding_damage,
    "identical_sides": identical_sides,
    "length_ratio": length_ratio,
    "too_long": too_long,
    "few_letters": few_letters,
    "repeated_words": repeated_words,
    "numbers_differ": numbers_differ,
    "wrong_script": wrong_script,
    "wrong_language": wrong_language,
}
"""By reason. A pair may show several; one with an empty side shows no other."""


def _rows(marked: NDArray[np.bool_]) -> list[int]:
    rows: list[int] = np.flatnonzero(marked).tolist()
    return rows


def _numbers(text: str) -> str:
    return " ".join(re.findall(r"\d[\d.,:/]*", text)[:8])
