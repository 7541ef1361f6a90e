"""How an attention call hides keys that its mask does not really hide: too late, or too weakly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.doctor.facts.attention.sights import SEEN, Sight

Hidden = Callable[[Sight], Tensor]  # bool, broadcastable to `[B, H, T, S]`


@dataclass(frozen=True)
class Explained:
    """What was seen of a mask that does not hide."""

    where: tuple[str, ...]
    cause: str
    mend: str


def later(sight: Sight) -> Tensor:
    """The keys behind each query."""
    T, S = sight.weights.shape[-2:]
    return torch.ones(T, S, dtype=torch.bool, device=sight.weights.device).triu(1)


def padded(sight: Sight) -> Tensor:
    """The keys that are padding."""
    return ~sight.keep[:, None, None, :]


def taken_after_softmax(seen: Sequence[Sight], hidden: Hidden, keys: str) -> Explained | None:
    """Softmax was taken over the hidden keys, too, and their weights were then set to 0.

    What is left no longer sums to 1, and by how much it falls short depends on what was hidden.

    Returns:
        None where no call does so; a call that divides by the new sum does not.
    """
    taken = {id(each): _taken(each, hidden(each)) for each in seen}
    late = [each for each in seen if bool((taken[id(each)] > SEEN).any())]
    if not late:
        return None
    heads = sum(int((taken[id(each)] > SEEN).sum()) for each in late)
    total = sum(each.weights.size(1) for each in seen)
    most = max(float(taken[id(each)].max()) for each in late)
    by = list(dict.fromkeys(n for each in late for n in each.call.transforms_after))
    return Explained(
        where=tuple(dict.fromkeys(each.module for each in late)),
        cause=f"A mask is applied after softmax{f' ({by[0]})' if by else ''}, not before it: in "
        f"{heads} of {total} heads softmax gives up to {most:.0%} of a query's weight to {keys}, "
        "which is then set to 0. What is left does not sum to 1, and so depends on what was "
        "hidden.",
        mend="Hide these keys in the scores, before softmax: scores.masked_fill(~keep, -inf) (or "
        "finfo.min); nothing but dropout belongs behind it.",
    )


def _taken(sight: Sight, hidden: Tensor) -> Tensor:
    """`[H]`: the most that is taken away from what softmax gives a real query's hidden keys."""
    given, applied = sight.call.weights, sight.call.applied_weights
    if given is None or applied is None or given.shape != applied.shape:
        return torch.zeros(sight.weights.size(1))
    before, after = given.float().nan_to_num(0.0), applied.float().nan_to_num(0.0)
    mass = (before * hidden).sum(-1)
    left = (after.abs() * hidden).sum(-1)
    short = before.sum(-1) - after.sum(-1)
    gone = (left <= SEEN) & (short > 0.5 * mass)
    return sight.of_real(mass.masked_fill(~gone, 0.0))


def set_to_a_number(seen: Sequence[Sight], hidden: Hidden, keys: str) -> Explained | None:
    """Every hidden score was set to one finite number, which softmax reads as any other score.

    Returns:
        None unless that is so in all of these calls.
    """
    numbers = [_number(each, hidden(each)) for each in seen]
    if not numbers or any(each is None for each in numbers):
        return None
    first = numbers[0]
    return Explained(
        where=tuple(dict.fromkeys(each.module for each in seen)),
        cause=f"The mask sets the scores of {keys} to {first:.4g}, not to −inf: softmax takes that "
        "for a score like any other.",
        mend="Fill with −inf (or finfo.min), by masked_fill or by adding it; multiplying scores "
        "with 0 and 1 hides nothing.",
    )


def _number(sight: Sight, hidden: Tensor) -> float | None:
    scores = sight.call.scores
    if scores is None or scores.shape != sight.weights.shape:
        return None
    real = sight.real[:, None, :, None] & sight.keep.any(1)[:, None, None, None]
    asked = (hidden & real).expand(scores.shape)
    values, others = scores[asked], scores[(~hidden & real).expand(scores.shape)]
    if values.numel() < 2 or others.numel() < 2 or not bool(values.isfinite().all()):
        return None
    one = bool((values == values[0]).all()) and not bool((others == others[0]).all())
    return float(values[0]) if one else None
