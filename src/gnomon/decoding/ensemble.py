"""Several models as one `TokenScorer`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from gnomon.decoding.scorer import AttendingScorer, TokenScorer
from gnomon.errors import ModelError

Combination = Literal["mean", "log_mean"]


def combined(log_probs: Sequence[Tensor], combination: Combination) -> Tensor:
    """Log-probabilities [..., V] of several models as one distribution.

    "mean" is the mean of probabilities, "log_mean" the normalised geometric mean (the mean of
    log-probabilities), where every model has a veto.
    """
    if len(log_probs) == 1:
        return log_probs[0]
    stacked = torch.stack(list(log_probs))
    if combination == "mean":
        # A sum of probabilities may round to just above 1.
        return (stacked.logsumexp(0) - math.log(len(log_probs))).clamp(max=0.0)
    return stacked.mean(0).log_softmax(-1)


class EnsembleScorer:
    """Scores the next token by what several models say together.

    Args:
        scorers: fresh ones over the same sentences and the same target vocabulary.
        combination: see `combined`.
    """

    def __init__(self, scorers: Sequence[TokenScorer], combination: Combination = "mean") -> None:
        assert scorers, "an ensemble has members"
        self.scorers = list(scorers)
        self.combination: Combination = combination

    @property
    def num_sentences(self) -> int:
        """See `TokenScorer`."""
        return self.scorers[0].num_sentences

    @property
    def device(self) -> torch.device:
        """See `TokenScorer`."""
        return self.scorers[0].device

    @torch.inference_mode()
    def next_log_probs(self, tokens: Tensor) -> Tensor:
        """See `TokenScorer.next_log_probs`."""
        found = [scorer.next_log_probs(tokens) for scorer in self.scorers]
        if len({each.size(-1) for each in found}) > 1:
            raise ModelError(
                "models decode together with one vocabulary",
                seen=f"sizes {', '.join(str(each.size(-1)) for each in found)}",
            )
        return combined(found, self.combination)

    def select(self, sentences: Tensor | None, parents: Tensor) -> None:
        """See `TokenScorer.select`."""
        for scorer in self.scorers:
            scorer.select(sentences, parents)

    def attention(self) -> tuple[Tensor, Tensor]:
        """The mean over the models; see `AttendingScorer.attention`."""
        found = [each.attention() for each in self.scorers if isinstance(each, AttendingScorer)]
        if len(found) < len(self.scorers):
            raise ModelError("A coverage penalty needs models with attention to their source.")
        return torch.stack([weights for weights, _ in found]).mean(0), found[0][1]
