"""The ids between which a translation stands: gnomon's own, or those of somebody else's model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.text import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True, kw_only=True)
class SequenceIds:
    """Ids by what they do for a translator.

    Attributes:
        pad: fills up short rows.
        start: what the decoder reads first.
        end: ends a translation.
        first: what every translation begins with, before its text (BART); None: nothing.
        source_prefix, source_suffix: around a source.
    """

    pad: int = PAD_ID
    start: int = BOS_ID
    end: int = EOS_ID
    first: int | None = None
    source_prefix: tuple[int, ...] = ()
    source_suffix: tuple[int, ...] = (EOS_ID,)

    def source(self, ids: Sequence[int]) -> list[int]:
        """A source as the encoder reads it."""
        return [*self.source_prefix, *ids, *self.source_suffix]

    def target(self, ids: Sequence[int]) -> list[int]:
        """A translation as the decoder reads and predicts it."""
        return [self.start, *self.before_text, *ids, self.end]

    @property
    def before_text(self) -> tuple[int, ...]:
        """What a translation begins with, before its text."""
        return () if self.first is None else (self.first,)

    @property
    def num_around_source(self) -> int:
        """Tokens around a source."""
        return len(self.source_prefix) + len(self.source_suffix)


class ForcedFirst:
    """A `TokenAutomaton` that forces the first token.

    Args:
        token: what it must be.
        vocab_size: V.
    """

    start = 0

    def __init__(self, token: int, vocab_size: int) -> None:
        self._allowed = torch.zeros(vocab_size, dtype=torch.bool)
        self._allowed[token] = True

    def allowed(self, state: int) -> Tensor:
        """See `TokenAutomaton`."""
        return self._allowed

    def after(self, state: int, token: int) -> int:
        """See `TokenAutomaton`."""
        return 1

    def is_free(self, state: int) -> bool:
        """See `TokenAutomaton`."""
        return state > 0
