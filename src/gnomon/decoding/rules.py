"""What both searches must respect: forbidden tokens, lengths, scores, and sane input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.decoding.config import SearchConfig
from gnomon.decoding.scorer import TokenScorer
from gnomon.errors import ModelError, RecipeError


class SearchRules:
    """The rules of one search over one batch, as tensors on the scorer's device.

    Attributes:
        max_lengths: [B] int64, the longest output of every sentence the search began with.
        longest: the longest of them, in tokens.
        penalties: [longest + 1] fp32, the divisor of a log-probability by length (place 0 unused).
    """

    def __init__(
        self,
        scorer: TokenScorer,
        config: SearchConfig,
        *,
        pad_id: int | None,
        bos_id: int | None,
        eos_id: int,
        max_lengths: Sequence[int],
    ) -> None:
        if problems := config.problems():
            raise RecipeError("The search cannot run with these values.", seen="; ".join(problems))
        if eos_id == pad_id:
            raise ModelError(
                "EOS must be a token of its own: padding is never generated.",
                seen=f"pad_id {pad_id}, bos_id {bos_id}, eos_id {eos_id}",
            )
        if len(max_lengths) != scorer.num_sentences:
            raise ModelError(
                "A search needs one length limit per sentence.",
                seen=f"{len(max_lengths)} limits for {scorer.num_sentences} sentences",
            )
        if any(limit < 1 for limit in max_lengths):
            raise ModelError(
                "A length limit must be at least 1, the EOS token.", seen=min(max_lengths)
            )
        self.eos_id = eos_id
        # What the decoder begins with is not generated, unless it is also what ends (BART).
        special = {each for each in (pad_id, bos_id) if each is not None}
        self.never = sorted(special - {eos_id})
        self.min_length = config.min_length
        self.longest = max(max_lengths, default=0)
        self.max_lengths = torch.tensor(max_lengths, dtype=torch.long, device=scorer.device)
        self.penalties = torch.tensor(
            [1.0] + [config.penalty(length) for length in range(1, self.longest + 1)],
            dtype=torch.float32,
            device=scorer.device,
        )

    def ban(self, next_log_probs: Tensor, length: int) -> Tensor:
        """Make what must not be token number `length` impossible, in place: [B, k, V]."""
        for token in self.never:
            next_log_probs[..., token] = -torch.inf
        if length < self.min_length:
            next_log_probs[..., self.eos_id] = -torch.inf
        return next_log_probs

    def best_future_score(self, log_probs: Tensor, length: int, max_lengths: Tensor) -> Tensor:
        """The highest score any continuation of a live hypothesis can end with.

        Further tokens add at most 0 to the log-probability, and the penalty is monotone in the
        length, whichever its sign. So the best case is to lose nothing and end either with the
        next token or at the limit.

        Args:
            log_probs: [B] of live hypotheses of `length` tokens.
            max_lengths: [B] limits of the same sentences.
        """
        soonest = min(max(length + 1, self.min_length), self.longest)
        at_once = log_probs / self.penalties[soonest]
        at_the_limit = log_probs / self.penalties[max_lengths]
        return torch.maximum(at_once, at_the_limit)


def split_finished(done: Tensor, log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Places that leave the search and places that stay; the one wait for the device per step.

    Args:
        done: [B] boolean.
        log_probs: [B, k] of the step's best extensions, checked to be log-probabilities.
    """
    broken = (log_probs[:, 0] > 0).any()  # NaN shows as +inf, see best_extensions
    *flags, is_broken = torch.cat((done, broken.unsqueeze(0))).tolist()
    if is_broken:
        raise ModelError(
            "The model's next-token scores are not log-probabilities: some are NaN or above 0.",
            mend="Look for NaN in the weights; a checkpoint from before the training diverged "
            "will decode.",
        )
    places = torch.arange(len(flags))
    gone = torch.tensor(flags)
    return places[gone].to(done.device), places[~gone].to(done.device)


def no_output(place: int) -> ModelError:
    """What to raise when a sentence has no possible output at all."""
    return ModelError(
        "Every output of this sentence has probability zero.",
        seen=f"sentence {place} of the batch",
    )
