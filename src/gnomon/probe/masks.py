"""Takes an additive mask apart: who may attend, what hides the rest, and the finite bias."""

from __future__ import annotations

import torch
from torch import Tensor

# Biases that models learn or compute (ALiBi, T5's buckets) stay far above this, mask constants
# (-10000, rounded to -9984 by bfloat16; -1e9; finfo.min; -inf) below it.
CERTAINLY_HIDES = -9_900.0
# A constant between this and the one above hides too, where it is all that a mask holds beside 0:
# exp(-50) is less than the resolution of any weight.
HIDES_ALONE = -50.0


def hides(value: float) -> bool:
    """Whether a score set to, or lowered by, `value` is that of a hidden key.

    True for `-inf` and everything below -50.
    """
    return value <= HIDES_ALONE


def split(added: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Take apart what is added to scores.

    Args:
        added: additive mask, bias or the sum of both, any shape, floating point.

    Returns:
        keep: boolean, True = may attend; None if nothing is hidden.
        bias: the finite part, 0 where hidden; None if there is none.
    """
    hidden = added <= CERTAINLY_HIDES
    if not bool(hidden.any()):
        lowest = float(added.min()) if added.numel() else 0.0
        two_valued = lowest <= HIDES_ALONE and bool(((added == 0) | (added == lowest)).all())
        if not two_valued:
            return None, (added if bool((added != 0).any()) else None)
        hidden = added == lowest
    bias = added.masked_fill(hidden, 0.0)
    return ~hidden, (bias if bool((bias != 0).any()) else None)


def prefers(bias: Tensor, keep: Tensor) -> bool:
    """Whether a bias `[B, H, T, S]` tells some of a query's keys from others.

    What lowers all of them alike (their largest score, taken off before an exponential by hand) is
    none: softmax does not see it.
    """
    lowest = bias.masked_fill(~keep, torch.inf).amin(-1)
    highest = bias.masked_fill(~keep, -torch.inf).amax(-1)
    return bool((highest > lowest).any())


def constants(added: Tensor, keep: Tensor | None, most: int = 8) -> tuple[float, ...]:
    """Distinct values that hide keys, smallest first, at most `most` of them."""
    if keep is None:
        return ()
    shape = (added + keep).shape
    added, keep = added.expand(shape), keep.expand(shape)
    values = torch.unique(added[~keep])
    return tuple(values[:most].tolist())


def squeeze_broadcast(mask: Tensor) -> Tensor:
    """`[B, H, T, S]` with B and H reduced to 1 where all their slices are equal."""
    for axis in (0, 1):
        if mask.shape[axis] > 1 and bool((mask == mask.narrow(axis, 0, 1)).all()):
            mask = mask.narrow(axis, 0, 1)
    return mask


def causal(num_queries: int, num_keys: int, device: torch.device) -> Tensor:
    """`[T, S]` of `is_causal=True`: aligned at the top left, as PyTorch does it."""
    return torch.ones(num_queries, num_keys, dtype=torch.bool, device=device).tril()
