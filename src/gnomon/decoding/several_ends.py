"""A model whose texts end in several ways, for searches that know one end."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.decoding.scorer import TokenScorer


class SeveralEnds:
    """A `TokenScorer` with all ends in the place of one: the most probable of them.

    Args:
        scorer: of the model.
        end: the token that the search takes for the end.
        others: further tokens that end a text.
    """

    def __init__(self, scorer: TokenScorer, end: int, others: Sequence[int]) -> None:
        self._scorer = scorer
        self._end = end
        self._others = list(others)

    @property
    def num_sentences(self) -> int:
        """See `TokenScorer`."""
        return self._scorer.num_sentences

    @property
    def device(self) -> torch.device:
        """See `TokenScorer`."""
        return self._scorer.device

    def next_log_probs(self, tokens: Tensor) -> Tensor:
        """See `TokenScorer`."""
        found = self._scorer.next_log_probs(tokens)
        best = found[..., [self._end, *self._others]].amax(dim=-1)
        found[..., self._others] = -torch.inf
        found[..., self._end] = best
        return found

    def select(self, sentences: Tensor | None, parents: Tensor) -> None:
        """See `TokenScorer`."""
        self._scorer.select(sentences, parents)
