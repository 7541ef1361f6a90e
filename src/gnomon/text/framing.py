"""Texts as one stack reads them: special tokens around, two texts in one row, nothing too long.

A vocabulary says which tokens text becomes; a framing adds what the model expects around them. The
classes that satisfy `Framing` are gnomon's own (here) and those of others (`text.pretrained`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gnomon.errors import DataError
from gnomon.text.tokenizer import Tokenizer

MASK = "<mask>"
"""The tag that stands for a hidden token, in vocabularies learned for masked language models."""
TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Framed:
    """One text, or two, as a row of ids.

    Attributes:
        ids: special tokens included.
        segments: of each id 0, or 1 from the second text on.
        spans: of each id where it stands in the first text, in characters (start, end); None of
            special tokens and of the second text.
        cut: tokens that were left out, as the row would have been too long.
    """

    ids: list[int]
    segments: list[int]
    spans: list[tuple[int, int] | None]
    cut: int = 0


class Framing(Protocol):
    """A vocabulary, and how a model of one stack reads a text or two."""

    vocab_size: int
    fingerprint: str

    @property
    def pad_id(self) -> int:
        """Fills up short rows."""
        ...

    @property
    def mask_id(self) -> int | None:
        """What stands for a hidden token; None: the vocabulary has none."""
        ...

    def frame(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
    ) -> list[Framed]:
        """The rows of some texts.

        Args:
            pairs: for each text a second one, which stands behind it.
            max_length: longest row, special tokens included; of what is longer the end is left
                out, of two texts the longer one's. None: nothing is.

        Raises:
            DataError: not as many pairs as texts, or no room for any token of a text.
        """
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The texts of rows of ids; special tokens vanish."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The written form of each id, for people to look at."""
        ...

    def save(self, folder: Path) -> None:
        """Write the vocabulary into a model folder."""
        ...


class OwnFraming:
    """A vocabulary that gnomon learned: begin, text, end (, second text, end)."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.vocab_size = tokenizer.vocab_size
        self.fingerprint = tokenizer.fingerprint
        self.pad_id = tokenizer.pad_id
        self.mask_id = tokenizer.tag_ids([MASK])[0] if MASK in tokenizer.tags else None

    def frame(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
    ) -> list[Framed]:
        """See `Framing`."""
        firsts = self.tokenizer.encode_with_spans(texts)
        if pairs is None:
            seconds = None
        else:
            check_pairs(texts, pairs)
            seconds = self.tokenizer.encode(pairs)
        begin, end = self.tokenizer.bos_id, self.tokenizer.eos_id
        found = []
        for number, (first, spans) in enumerate(firsts):
            second = None if seconds is None else seconds[number]
            num_special = 2 if second is None else 3
            kept = room(
                len(first), None if second is None else len(second), max_length, num_special
            )
            head = [begin, *first[: kept[0]], end]
            tail = [] if second is None else [*second[: kept[1]], end]
            cut = len(first) - kept[0] + (0 if second is None else len(second) - kept[1])
            places = [None, *spans[: kept[0]], None, *[None] * len(tail)]
            found.append(Framed(head + tail, [0] * len(head) + [1] * len(tail), places, cut))
        return found

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """See `Framing`."""
        return self.tokenizer.decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """See `Framing`."""
        return self.tokenizer.pieces(ids)

    def save(self, folder: Path) -> None:
        """See `Framing`."""
        self.tokenizer.save(folder / TOKENIZER_FILE)


def check_pairs(texts: Sequence[str], pairs: Sequence[str]) -> None:
    """Every text has a second one.

    Raises:
        DataError: the counts differ.
    """
    if len(texts) != len(pairs):
        raise DataError(
            "every text needs a second one", seen=f"{len(texts)} texts, {len(pairs)} second ones"
        )


def room(
    first: int, second: int | None, max_length: int | None, num_special: int
) -> tuple[int, int]:
    """How many tokens of each text a row holds; the longer one gives way first.

    Raises:
        DataError: not one token of each fits.
    """
    both = second or 0
    if max_length is None or first + both + num_special <= max_length:
        return first, both
    left = max_length - num_special
    if left < (1 if second is None else 2):
        raise DataError(
            "a row must have room for a token of each text beside the special ones",
            seen=f"a longest row of {max_length} tokens, {num_special} of them special",
        )
    if second is None:
        return left, 0
    shorter = min(first, both, left // 2)
    return (
        (shorter, min(both, left - shorter))
        if first <= both
        else (
            min(first, left - shorter),
            shorter,
        )
    )


def load_framing(folder: Path) -> Framing:
    """The vocabulary in a model folder, gnomon's own or one that came with the model.

    Raises:
        ModelError: there is none, or a damaged one.
    """
    from gnomon.text.tokenizer_pair import load_tokenizer  # which knows both, and they know this

    found = load_tokenizer(folder / TOKENIZER_FILE)
    return OwnFraming(found) if isinstance(found, Tokenizer) else found
