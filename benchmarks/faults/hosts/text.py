"""Real text for small models: English lines of Python's own documentation, by characters."""

from __future__ import annotations

import functools
import pydoc_data.topics
import random
import re

import torch
from torch import Tensor

PAD, BOS, EOS, MASK, UNKNOWN = range(5)
FIRST = 5  # id of the first character
CHARACTERS = [chr(code) for code in range(32, 127)]
VOCAB_SIZE = FIRST + len(CHARACTERS)  # 100
LONGEST = 64  # positions that learned tables have, and the longest text in training
NUM_ROWS = 4
LENGTHS = (20, 15, 11, 17)  # of the rows of an example batch; the rest is padding


class CharacterTokenizer:
    """A character is a token; `len` is the number of ids."""

    pad_token_id, bos_token_id, eos_token_id, mask_token_id, unk_token_id = range(5)

    def encode(self, text: str) -> list[int]:
        """Ids of the characters, then the end of the text."""
        known = (FIRST + ord(c) - 32 if " " <= c <= "~" else UNKNOWN for c in text)
        return [*known, EOS]

    def decode(self, ids: list[int]) -> str:
        """The characters; special ids are left out."""
        return "".join(CHARACTERS[i - FIRST] for i in ids if i >= FIRST)

    def __len__(self) -> int:
        return VOCAB_SIZE


@functools.cache
def corpus() -> tuple[str, ...]:
    """Lines of prose, in a fixed order for one version of Python."""
    text = "\n".join(pydoc_data.topics.topics[key] for key in sorted(pydoc_data.topics.topics))
    found = re.findall(r"^ *([A-Z][a-z][A-Za-z ,.'()-]{30,})$", text, flags=re.MULTILINE)
    return tuple(dict.fromkeys(line.strip() for line in found))


def lines(seed: int, number: int) -> list[str]:
    """`number` lines drawn with `seed`."""
    return random.Random(seed).sample(corpus(), number)


def rows(seed: int, lengths: tuple[int, ...] = LENGTHS, *, first: bool = True) -> Tensor:
    """Ids `[B, max(lengths)]`, right-padded: BOS, characters, EOS in each row.

    Args:
        seed: chooses the lines.
        lengths: tokens of each row, BOS and EOS included.
        first: whether a row begins with BOS.
    """
    encode = CharacterTokenizer().encode
    ids = torch.full((len(lengths), max(lengths)), PAD)
    for row, (line, length) in enumerate(zip(lines(seed, len(lengths)), lengths, strict=True)):
        text = line[: length - 1 - first]
        tokens = [*([BOS] if first else []), *encode(text)]
        ids[row, : len(tokens)] = torch.tensor(tokens)
    return ids


def swapped(ids: Tensor) -> Tensor:
    """A "translation" that needs the source: every letter in the other case, same positions."""
    codes = ids - FIRST + 32
    upper, lower = (codes >= 65) & (codes <= 90), (codes >= 97) & (codes <= 122)
    return torch.where(upper, ids + 32, torch.where(lower, ids - 32, ids))


def masked(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs and places of a masked language model: every fourth real token is hidden.

    Deterministic, so that any batch of the same ids gives the same loss.
    """
    place = torch.arange(ids.shape[1], device=ids.device) % 4 == 1
    hidden = place & (ids >= FIRST)
    return torch.where(hidden, MASK, ids), hidden
