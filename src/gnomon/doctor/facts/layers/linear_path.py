"""How much of one tensor another holds by sums alone, read off the graph between them."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

# Nodes that pass their input on as it is, in another shape or dtype.
_PASSING = (
    "View", "UnsafeView", "ReshapeAlias", "Transpose", "Permute", "Clone", "ToCopy", "Squeeze",
    "Unsqueeze", "Expand", "NativeDropout", "Alias", "T", "Contiguous",
)  # fmt: skip
_DEEPEST = 400  # nodes that are looked at


def linear_share(target: Tensor, anchor: Tensor) -> float | None:
    """The factor of `anchor` in `target`, along all paths of sums, scalings and views.

    1 for x + F(x), 0.5 for x / 2 + F(x), 0 where every path leads through something else; None
    where a path leads through a factor that the graph does not tell.
    """
    goal = anchor.grad_fn
    known: dict[Any, float] = {}

    def share(node: Any) -> float:
        if node is None:
            return 0.0
        if node is goal or (goal is None and getattr(node, "variable", None) is anchor):
            return 1.0
        if node not in known:
            if len(known) > _DEEPEST:
                return math.nan
            known[node] = 0.0
            known[node] = _through(node, share)
        return known[node]

    value = share(target.grad_fn)
    return None if math.isnan(value) else value


def _through(node: Any, share: Any) -> float:
    name = type(node).__name__
    inputs = [each for each, _ in node.next_functions]
    kind = name.removesuffix("0").removesuffix("1").removesuffix("Backward")
    if kind in ("Add", "Sub"):
        first = share(inputs[0])
        second = share(inputs[1]) if len(inputs) > 1 else 0.0
        alpha = float(getattr(node, "_saved_alpha", 1))
        return float(first + (alpha if kind == "Add" else -alpha) * second)
    if kind in ("Mul", "Div"):
        under = share(inputs[0])
        other = share(inputs[1]) if kind == "Mul" and len(inputs) > 1 else 0.0
        if under == 0 and other == 0:
            return 0.0
        saved = getattr(node, "_saved_other" if under else "_saved_self", None)
        if isinstance(saved, Tensor) and saved.numel() == 1 and not (under and other):
            factor = float(saved)
            return under / factor if kind == "Div" else (under or other) * factor
        return math.nan
    if kind == "Neg":
        return -float(share(inputs[0]))
    if kind in _PASSING:
        return float(share(inputs[0]))
    return 0.0
