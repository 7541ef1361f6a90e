"""A vocabulary as a language model uses it: texts to ids, and what begins and ends a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnomon.errors import ModelError
from gnomon.text.framing import Framing


class Vocabulary:
    """The tokenizer of a model folder, gnomon's own or one that came with somebody else's model.

    Attributes:
        begin_id: begins every document that is learned from; that of the end, where the vocabulary
            has none of its own.
        end_id: ends a text.
        begins: whether a text to go on from starts with `begin_id`: GPT-2's does not.
        unk_id: stands for what cannot be spelled; None: all can.

    Raises:
        ModelError: nothing in the vocabulary ends a text.
    """

    def __init__(self, framing: Framing) -> None:
        self.framing = framing
        # One of several classes that share these members; `Framing` says what all models need.
        self._tokenizer: Any = getattr(framing, "tokenizer", framing)
        self.vocab_size = framing.vocab_size
        self.fingerprint = framing.fingerprint
        self.unk_id: int | None = self._tokenizer.unk_id
        begin, end = self._tokenizer.bos_id, self._tokenizer.eos_id
        if end is None:
            raise ModelError(
                "a language model's vocabulary needs a token that ends a text", seen="none"
            )
        self.begin_id: int = end if begin is None else begin
        self.end_id: int = end
        prefix = getattr(self._tokenizer, "prefix", None)  # of other people's: as they set it
        self.begins = prefix is None or bool(prefix)
        self.pad_id = framing.pad_id

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text alone.

        Raises:
            DataError: a text holds a lone surrogate, which no encoding can carry.
        """
        found: list[list[int]] = self._tokenizer.encode(texts)
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a row of ids; special tokens vanish."""
        return self.framing.decode([ids])[0]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The written form of each id, for people to look at."""
        return self.framing.pieces(ids)

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        self.framing.save(folder)
