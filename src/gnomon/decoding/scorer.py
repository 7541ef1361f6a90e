"""What a search needs from a model, and nothing more."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


class TokenScorer(Protocol):
    """Gives the log-probability of every next token for a growing set of hypotheses.

    Letters: B sentences still in the search, k hypotheses in each, V vocabulary. A new scorer
    has one empty hypothesis per sentence (k = 1). The search then alternates `next_log_probs`
    and `select`; between two calls of `next_log_probs` there is at most one `select`.

    Hypotheses come grouped by sentence because that is where the speed is: what belongs to the
    sentence (encoder output, cross-attention keys and values) needs no copy when only the
    hypotheses within it change places.
    """

    @property
    def num_sentences(self) -> int:
        """Sentences still in the search (B)."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the search must keep its tensors."""
        ...

    def next_log_probs(self, tokens: Tensor) -> Tensor:
        """Append a token to every hypothesis and score what may follow.

        Args:
            tokens: [B, k] int64, the newest token of each hypothesis (at first BOS).

        Returns:
            [B, k, V] fp32 log-probabilities, at most 0; the search may overwrite the tensor.
            A row may depend only on its own sentence and hypothesis.
        """
        ...

    def select(self, sentences: Tensor | None, parents: Tensor) -> None:
        """Keep some sentences, and in each let hypothesis j continue the old hypothesis parents[j].

        Args:
            sentences: [B'] int64, ascending places of the sentences that stay; None if all do.
            parents: [B', k'] int64 places among the old k, for the sentences that stay.
        """
        ...


@runtime_checkable
class AttendingScorer(TokenScorer, Protocol):
    """A scorer that also says which source tokens the model looked at (for coverage)."""

    def attention(self) -> tuple[Tensor, Tensor]:
        """What the newest `next_log_probs` attended to.

        Returns:
            Weights [B, k, S] fp32, each row summing to 1, and [B, S] boolean, True at real tokens.
        """
        ...
