"""Masks `[T, T]` that say who may attend to whom, in any convention, made larger."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Side = Literal["left", "right"]


def _keeps(square: Tensor) -> bool:
    """Whether True (or 1) stands where one may attend: at itself, mostly."""
    return bool(square.diagonal(dim1=-2, dim2=-1).bool().any())


def hides(square: Tensor) -> Tensor:
    """What hides a key in this square, a scalar of its dtype."""
    if not square.is_floating_point():
        return torch.tensor(not _keeps(square), device=square.device).to(square.dtype)
    lowest = square.min() if square.numel() else square.new_zeros(())
    return lowest if lowest < -1 else square.new_tensor(torch.finfo(square.dtype).min)


def grown_by_hidden(before: Tensor, after: Tensor, num: int, side: Side) -> Tensor:
    """Each text's own mask for `num` more positions: nobody sees them but each of them itself."""
    new = torch.zeros(after.size(-1), dtype=torch.bool, device=after.device)
    new[slice(num) if side == "left" else slice(-num, None)] = True
    itself = torch.eye(len(new), dtype=torch.bool, device=after.device)
    shows = before.new_zeros(()) if before.is_floating_point() else ~hides(before).bool()
    grown = torch.where(new[:, None], shows.to(after.dtype), after)
    return torch.where(new & ~itself, hides(before), grown)


def grown_square(before: Tensor, after: Tensor, num: int, side: Side) -> Tensor:
    """A `[T, T]` mask for `num` more positions: causal if it was, else everyone sees everyone."""
    size = after.size(-1)
    is_bool = before.dtype == torch.bool
    old = before.size(-1)
    upper = torch.ones(old, old, dtype=torch.bool, device=before.device).triu(1)
    hidden = before if is_bool else before < -1.0
    # nn.Transformer's convention for bool is True = hidden; a "keep" square is its complement.
    causal_hidden, causal_keep = bool((hidden == upper).all()), bool((hidden == ~upper).all())
    grown_upper = torch.ones(size, size, dtype=torch.bool, device=before.device).triu(1)
    if is_bool and (causal_hidden or causal_keep):
        return (grown_upper if causal_hidden else ~grown_upper).expand(after.shape)
    if not is_bool and causal_hidden and old > 1:
        return torch.zeros_like(after).masked_fill(grown_upper, float(before.min()))
    if is_bool and _keeps(before):
        new = torch.arange(size, device=after.device)
        new = new < num if side == "left" else new >= old
        return after | new | new[:, None]
    return after
