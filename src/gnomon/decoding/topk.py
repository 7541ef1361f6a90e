"""The best one-token extensions of every sentence's hypotheses, exact and with ordered ties.

`torch.topk` over k * V scores per sentence costs more than the log-softmax before it and leaves
the choice among equal scores to the implementation. Here the scores are read once, for the
maxima of small blocks; only the blocks with the best maxima can hold a winner, and the few
scores in them are ranked by an integer key in which no two are equal.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 64  # tokens; about sqrt(V / k) for usual sizes, where both passes are shortest


def best_extensions(
    log_probs: Tensor, next_log_probs: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Rank every extension of every hypothesis; ties go to the lower hypothesis, then token.

    Args:
        log_probs: [B, k] fp32 of the hypotheses so far; -inf marks an empty place.
        next_log_probs: [B, k, V] fp32.
        count: how many extensions to return per sentence.

    Returns:
        Log-probabilities, places of the parents and tokens, [B, count] each, best first.
        Where fewer than `count` extensions exist the log-probability is -inf. A NaN anywhere in
        a sentence shows as +inf in its first place.
    """
    _, k, V = next_log_probs.shape
    maxima = _block_maxima(next_log_probs) + log_probs.unsqueeze(-1)  # [B, k, num_blocks]
    num_blocks = maxima.size(-1)
    maxima = _nan_as_infinity(maxima).flatten(1)
    blocks = ordered_keys(maxima).topk(min(count, k * num_blocks)).indices.sort().values

    parents = blocks // num_blocks  # [B, c]
    offsets = torch.arange(BLOCK, device=maxima.device)
    tokens = (blocks % num_blocks * BLOCK).unsqueeze(-1) + offsets  # [B, c, BLOCK]
    places = parents.unsqueeze(-1) * V + tokens.clamp(max=V - 1)
    values = next_log_probs.flatten(1).gather(1, places.flatten(1)).view_as(places)
    values = values + log_probs.gather(1, parents).unsqueeze(-1)
    values = _nan_as_infinity(values).masked_fill(tokens >= V, -torch.inf).flatten(1)

    winners = ordered_keys(values).topk(min(count, values.size(1))).indices
    best = (
        values.gather(1, winners),
        parents.gather(1, winners // BLOCK),
        tokens.flatten(1).gather(1, winners).clamp(max=V - 1),
    )
    missing = count - winners.size(1)
    if missing == 0:
        return best
    return (
        F.pad(best[0], (0, missing), value=-torch.inf),
        F.pad(best[1], (0, missing)),
        F.pad(best[2], (0, missing)),
    )


def _block_maxima(scores: Tensor) -> Tensor:
    """Maximum of each run of BLOCK scores, the last run being shorter: [B, k, V] → [B, k, n]."""
    whole = scores.size(-1) // BLOCK * BLOCK
    maxima = []
    if whole:
        maxima.append(scores[..., :whole].reshape(*scores.shape[:-1], -1, BLOCK).amax(-1))
    if whole < scores.size(-1):
        maxima.append(scores[..., whole:].amax(-1, keepdim=True))
    return torch.cat(maxima, -1)


def _nan_as_infinity(scores: Tensor) -> Tensor:
    return scores.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)


def ordered_keys(scores: Tensor) -> Tensor:
    """Distinct int64 that rank like fp32 `scores` [B, n], earlier places first among equals."""
    bits = (scores + 0.0).view(torch.int32)  # + 0.0: minus zero ties with zero
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # negative floats rank backwards by their bits
    places = torch.arange(scores.size(1), device=scores.device)
    return (ordered.long() << 32) - places
