"""What each token writes, character by character."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gnomon.text import BYTES, SPECIALS, UNK_ID, Tokenizer


class Spelling:
    """The symbols that each token of a vocabulary writes.

    A symbol is a character, or one byte ("<0x0A>") of a character outside the alphabet.

    Attributes:
        pieces: [V] the symbols of each token; None where it writes nothing.
        alphabet: all symbols.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        written = tokenizer.pieces(range(tokenizer.vocab_size))
        named = set(BYTES)
        self.pieces: list[Sequence[str] | None] = [
            (piece,) if piece in named else piece for piece in written
        ]
        for number in range(len(SPECIALS)):
            self.pieces[number] = "\ufffd" if number == UNK_ID else None
        self.alphabet = {symbol for piece in self.pieces if piece for symbol in piece}
        self._beginning_with: dict[str, list[int]] = defaultdict(list)
        for token, piece in enumerate(self.pieces):
            if piece:
                self._beginning_with[piece[0]].append(token)

    def beginning_with(self, symbol: str) -> Sequence[int]:
        """Tokens whose first symbol this is."""
        return self._beginning_with.get(symbol, ())

    def symbols(self, text: str) -> list[str] | None:
        """How tokens write `text`, bytes where they have no character for it; None: not at all."""
        found: list[str] = []
        for character in text:
            bytes_ = [BYTES[byte] for byte in character.encode("utf-8")]
            found += [character] if character in self.alphabet else bytes_
        return found if self.alphabet.issuperset(found) else None

    def table(self, number: Mapping[str, int]) -> NDArray[np.int64]:
        """[V, longest] numbers of the symbols of each token, -1 behind its end."""
        longest = max(len(piece) for piece in self.pieces if piece)
        table = np.full((len(self.pieces), longest), -1, dtype=np.int64)
        for token, piece in enumerate(self.pieces):
            if piece:
                table[token, : len(piece)] = [number[symbol] for symbol in piece]
        return table
