"""Counts over many texts at once: classes of characters, words, digits, scripts.

A text is judged by sums over its characters, so a chunk of texts is one array of code points and
each count a `bincount` over it; nothing here loops over texts or characters in Python.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gnomon.text.cleaning_controls import is_control
from gnomon.text.scripts import SCRIPTS, script_of

# Classes of characters; 0 means "not looked at yet" in the tables.
OTHER, LETTER, HALF_WORD, QUARTER_WORD, DIGIT, SPACE, CONTROL, REPLACEMENT = range(1, 9)
_NUM_CLASSES = 9

# Letters of scripts without spaces, by how much of a word of other scripts one letter makes.
_UNSPACED = {
    **dict.fromkeys(("Han", "Hiragana", "Katakana", "Bopomofo"), HALF_WORD),
    **dict.fromkeys(("Thai", "Lao", "Khmer", "Myanmar", "Tibetan"), QUARTER_WORD),
}


class _Table:
    """A class for each code point, asked for once for each that occurs."""

    def __init__(self, classify: Callable[[str], int]) -> None:
        self._classify = classify
        self._known = np.zeros(0x110000, np.uint8)

    def __getitem__(self, codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
        found = self._known[codes]
        if not found.all():
            for code in np.unique(codes[found == 0]).tolist():
                self._known[code] = self._classify(chr(code))
            found = self._known[codes]
        return found


def _class_of(character: str) -> int:
    if is_control(character):
        return CONTROL
    if character.isspace():
        return SPACE
    if character.isdecimal():
        return DIGIT
    if character == "\ufffd":
        return REPLACEMENT
    if unicodedata.category(character)[0] not in "LM":
        return OTHER
    return _UNSPACED.get(script_of(character) or "", LETTER)


def _script_number(character: str) -> int:
    is_letter = unicodedata.category(character)[0] in "LM"
    script = script_of(character) if is_letter else None
    return 1 if script is None else 2 + SCRIPTS.index(script)


def _digit_value(character: str) -> int:
    return 1 + unicodedata.decimal(character)


_CLASSES = _Table(_class_of)
_SCRIPT_NUMBERS = _Table(_script_number)
_DIGIT_VALUES = _Table(_digit_value)


class Traits:
    """Counts of one side of a chunk, int64 or float64 [num_texts]."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.num_characters = np.fromiter(map(len, texts), np.int64, len(texts))
        joined = "".join(texts).encode("utf-32-le", "surrogatepass")
        self._codes = np.frombuffer(joined, "<u4")
        self._rows = np.repeat(np.arange(len(texts), dtype=np.int32), self.num_characters)
        self._classes = _CLASSES[self._codes]
        self._counts = self._count(self._classes, _NUM_CLASSES)

    def __len__(self) -> int:
        return len(self.num_characters)

    @property
    def num_controls(self) -> NDArray[np.int64]:
        """Control and line-separator characters."""
        return self._counts[:, CONTROL]

    @property
    def num_replacements(self) -> NDArray[np.int64]:
        """U+FFFD, which stands where bytes could not be read."""
        return self._counts[:, REPLACEMENT]

    @property
    def num_written(self) -> NDArray[np.int64]:
        """Characters that are neither blank nor control."""
        return self.num_characters - self._counts[:, SPACE] - self._counts[:, CONTROL]

    @property
    def num_letters(self) -> NDArray[np.int64]:
        """Letters and marks of any script."""
        return self._counts[:, LETTER] + self._counts[:, HALF_WORD] + self._counts[:, QUARTER_WORD]

    @cached_property
    def num_words(self) -> NDArray[np.float64]:
        """Words, a letter of an unspaced script counting as a half or a quarter."""
        between_spaces = np.bincount(self._rows[self._word_starts], minlength=len(self))
        unspaced = self._counts[:, HALF_WORD] / 2 + self._counts[:, QUARTER_WORD] / 4
        counts: NDArray[np.float64] = between_spaces + unspaced
        return counts

    @cached_property
    def digits(self) -> NDArray[np.int64]:
        """How often each digit occurs, [num_texts, 10], whatever the script of the digits."""
        here = self._classes == DIGIT
        values = _DIGIT_VALUES[self._codes[here]] - 1
        places = self._rows[here] * 10 + values
        return np.bincount(places, minlength=10 * len(self)).reshape(-1, 10)

    def num_letters_in(self, scripts: Sequence[str]) -> NDArray[np.int64]:
        """Letters of these scripts; letters of no listed script (ª, modifiers) belong to all."""
        numbers = [1 + 1 + SCRIPTS.index(script) for script in scripts]
        counts = self._count(_SCRIPT_NUMBERS[self._codes], 2 + len(SCRIPTS))
        elsewhere = counts[:, 2:].sum(axis=1) - counts[:, numbers].sum(axis=1)
        here: NDArray[np.int64] = self.num_letters - elsewhere
        return here

    def may_repeat(self, times: int) -> NDArray[np.int64]:
        """Rows in which a word may stand `times` times in a row; to be looked at again.

        Words are compared by the sum of a mix of their code points, which says "no" for sure.
        """
        starts = np.flatnonzero(self._word_starts)
        if len(starts) < times:
            return np.zeros(0, np.int64)
        mixed = self._codes * np.uint32(2654435761)
        mixed ^= mixed >> np.uint32(15)
        mixed[self._is_space] = 0
        sums = np.add.reduceat(mixed, starts)
        rows = self._rows[starts]
        same = (sums[1:] == sums[:-1]) & (rows[1:] == rows[:-1])
        windows = np.lib.stride_tricks.sliding_window_view(same, times - 1)
        found: NDArray[np.int64] = np.unique(rows[np.flatnonzero(windows.all(axis=1))])
        return found

    @cached_property
    def _is_space(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (self._classes == SPACE) | (self._classes == CONTROL)
        return found

    @cached_property
    def _word_starts(self) -> NDArray[np.bool_]:
        starts = ~self._is_space
        starts[1:] &= self._is_space[:-1] | (self._rows[1:] != self._rows[:-1])
        return starts

    def _count(self, classes: NDArray[np.uint8], num_classes: int) -> NDArray[np.int64]:
        places = self._rows * num_classes + classes
        return np.bincount(places, minlength=num_classes * len(self)).reshape(-1, num_classes)
