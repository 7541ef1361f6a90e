"""A text that an output must begin with, also where it ends within a word."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.tasks.spelling import Spelling

_LONGEST_TAIL = 24  # characters of the last word that may be cut otherwise than the tokenizer does


class ForcedPrefix:
    """A `TokenAutomaton` that lets through only outputs whose text begins with a given text.

    All words but the last are forced in the tokenizer's own cut. The last one may be cut in any
    way and may go on: after "Ein Hun" the model can write " Hund" in one piece, as it does
    everywhere else, although the tokenizer cuts " Hun" into other pieces.

    Args:
        ids: the prefix as the tokenizer cuts it.
        spelling: of the tokens.
        free_tail: False: every token is forced, for want of room for another cut.
    """

    start = 0

    def __init__(self, ids: Sequence[int], spelling: Spelling, *, free_tail: bool = True) -> None:
        pieces = [spelling.pieces[token] for token in ids]
        head = _start_of_last_word(pieces) if free_tail else len(ids)
        self._spelling = spelling
        self._head = list(ids[:head])
        self._tail = [symbol for piece in pieces[head:] for symbol in piece or ()]
        self._end = head + len(self._tail)
        self.longest = self._end  # tokens, if every character of the tail becomes one

    def is_free(self, state: int) -> bool:
        """See `TokenAutomaton`."""
        return state >= self._end

    def allowed(self, state: int) -> Tensor:
        """See `TokenAutomaton`: state n < head awaits forced token n; later ones count symbols."""
        allowed = torch.zeros(len(self._spelling.pieces), dtype=torch.bool)
        if state < len(self._head):
            allowed[self._head[state]] = True
            return allowed
        rest = self._tail[state - len(self._head) :]
        for token in self._spelling.beginning_with(rest[0]):
            piece = self._spelling.pieces[token] or ()
            width = min(len(piece), len(rest))
            if list(piece[:width]) == rest[:width]:
                allowed[token] = True
        return allowed

    def after(self, state: int, token: int) -> int:
        """See `TokenAutomaton`."""
        if state < len(self._head):
            return state + 1
        return min(self._end, state + len(self._spelling.pieces[token] or ()))


def _start_of_last_word(pieces: Sequence[Sequence[str] | None]) -> int:
    """Number of the piece that the last word, or the last blank, begins with."""
    width = 0
    for number in range(len(pieces) - 1, -1, -1):
        piece = pieces[number] or ()
        width += len(piece)
        if width > _LONGEST_TAIL:
            return number + 1
        if piece and piece[0] == " ":
            return number
    return 0
