"""Phrases that must not stand in an output, however the tokenizer would cut them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnomon.tasks.spelling import Spelling
from gnomon.text import joins_words

_EDGE = "<edge>"  # a symbol that is no part of a word, or the end of the text
_BLANK = " "  # stands for the text's beginning and end, which are no part of a word either


class BannedPhrases:
    """A `TokenAutomaton` that reads the characters of tokens, so that no tokenisation gets past.

    A phrase is matched as whole words where its edges are parts of words: with "cat" banned,
    "cat." may not be and "category" may. It is matched in the case it is given in.

    The phrases form a trie over characters, an edge of which may also stand for "no part of a
    word". A state is the set of trie places that end the text so far (an NFA made deterministic
    where it is walked); what each token of the vocabulary does in a state is computed at once and
    kept.

    Args:
        phrases: in the tokenizer's normal form, without blanks at their ends.
        spelling: of the tokens.
        eos_id: ends the text.
    """

    start = 0

    def __init__(self, phrases: Iterable[str], spelling: Spelling, eos_id: int) -> None:
        self._children: list[dict[str, int]] = [{}]
        self._last: set[int] = set()
        for phrase in phrases:
            symbols = spelling.symbols(phrase)
            if not symbols:
                continue  # no token can write it
            before = [_EDGE] if joins_words(phrase[0]) else []
            after = [_EDGE] if joins_words(phrase[-1]) else []
            self._add([*before, *symbols, *after])
        # Symbols that no phrase holds differ only in whether they part words.
        held = sorted({symbol for children in self._children for symbol in children} - {_EDGE})
        self._symbols = [*((symbol, _parts(symbol)) for symbol in held), ("", False), ("", True)]
        number = {symbol: len(held) + _parts(symbol) for symbol in spelling.alphabet | {_BLANK}} | {
            symbol: place for place, symbol in enumerate(held)
        }
        self._table = spelling.table(number)  # [V, longest], -1 behind the end
        self._table[eos_id, 0] = number[_BLANK]
        self._states: dict[frozenset[int], int] = {}
        self._sets: list[frozenset[int]] = []
        self._steps: dict[tuple[int, int], int] = {}
        self._rows: dict[int, tuple[NDArray[np.int64], Tensor]] = {}
        beginning = self._step_set(frozenset(), number[_BLANK])
        assert beginning is not None
        assert self._state(beginning) == self.start

    @property
    def empty(self) -> bool:
        """Whether nothing is banned."""
        return len(self._children) == 1

    def is_free(self, state: int) -> bool:
        """See `TokenAutomaton`."""
        return self.empty

    def allowed(self, state: int) -> Tensor:
        """See `TokenAutomaton`."""
        return self._row(state)[1]

    def after(self, state: int, token: int) -> int:
        """See `TokenAutomaton`."""
        return max(0, int(self._row(state)[0][token]))

    def _row(self, state: int) -> tuple[NDArray[np.int64], Tensor]:
        if state not in self._rows:
            reached = self._reached(state)
            self._rows[state] = reached, torch.from_numpy(reached >= 0)
        return self._rows[state]

    def _reached(self, state: int) -> NDArray[np.int64]:
        """The state after each token, -1 where a phrase ends within it: [V]."""
        reached = np.full(len(self._table), state, dtype=np.int64)
        width = len(self._symbols)
        for column in self._table.T:
            going = np.flatnonzero((column >= 0) & (reached >= 0))
            if len(going) == 0:
                break
            steps, which = np.unique(reached[going] * width + column[going], return_inverse=True)
            targets = [self._step(*divmod(int(step), width)) for step in steps]
            reached[going] = np.array(targets, dtype=np.int64)[which]
        return reached

    def _step(self, state: int, symbol: int) -> int:
        if (state, symbol) not in self._steps:
            after = self._step_set(self._sets[state], symbol)
            self._steps[state, symbol] = -1 if after is None else self._state(after)
        return self._steps[state, symbol]

    def _step_set(self, places: frozenset[int], number: int) -> frozenset[int] | None:
        """Trie places after one more symbol; None where a phrase is complete."""
        symbol, parts = self._symbols[number]
        labels = [symbol, _EDGE] if parts else [symbol]
        after = {
            self._children[place][label]
            for place in (0, *places)
            for label in labels
            if label in self._children[place]
        }
        return None if after & self._last else frozenset(after)

    def _state(self, places: frozenset[int]) -> int:
        if places not in self._states:
            self._states[places] = len(self._sets)
            self._sets.append(places)
        return self._states[places]

    def _add(self, symbols: list[str]) -> None:
        place = 0
        for symbol in symbols:
            if symbol not in self._children[place]:
                self._children[place][symbol] = len(self._children)
                self._children.append({})
            place = self._children[place][symbol]
        self._last.add(place)


def _parts(symbol: str) -> bool:
    """Whether a word ends at this symbol; a byte of a character counts as part of a word."""
    return len(symbol) == 1 and not joins_words(symbol)
