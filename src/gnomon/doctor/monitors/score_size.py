"""How large the scores of an attention call are, and whether a NaN began in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gnomon.probe import AttentionCall
from gnomon.training.guard import NonFinite


@dataclass(frozen=True)
class ScoreSize:
    """The scores of one attention call, computed again from its queries and keys in fp64.

    Attributes:
        largest: largest magnitude of q·k times its scale (mask left out); infinite where queries
            or keys are.
        formed: what the number format had to hold: q·k before its scale where that comes after
            the product, else `largest`; in a fused kernel, which is fp32 inside, nothing.
        head: the head where it is.
        scale: the factor applied; None where it is not one number.
        width: d_k.
        empty_rows: queries that may attend to no key.
        constants: values that hide keys.
    """

    module: str
    dtype: torch.dtype
    largest: float
    formed: float
    head: int
    scale: float | None
    width: int
    empty_rows: int
    constants: tuple[float, ...]
    finite_weights: bool

    @property
    def limit(self) -> float:
        """Where the number format of the scores ends."""
        return torch.finfo(self.dtype).max

    @property
    def overflows(self) -> bool:
        """Whether the number format could not hold them."""
        return self.formed > self.limit

    @property
    def unscaled(self) -> bool:
        """Whether q·k is left as large as √d_k (and more) makes it."""
        return self.scale is not None and self.width >= 4 and self.scale > 2 * self.width**-0.5


def measure(call: AttentionCall) -> ScoreSize | None:
    """Sizes of one call's scores; None where they do not show."""
    query, key, keep, weights = call.query, call.key, call.keep, call.weights
    if query is None or key is None:
        return None
    raw = query.double() @ key.double().transpose(-1, -2)  # wherever they began, they have a size
    sizes = raw.nan_to_num(nan=0.0, posinf=torch.inf, neginf=torch.inf).abs()
    scale = abs(call.scale) if call.scale is not None else 1.0
    scaled_after = bool({"mul", "div"} & set(call.transforms_before))
    by_head = sizes.amax((0, 2, 3))
    shown = sizes if keep is None else sizes.masked_fill(~keep, 0.0)
    product = float(by_head.max())
    in_kernel = call.path == "fused" or (call.kernel is not None and call.kernel != "math")
    return ScoreSize(
        module=call.module,
        dtype=call.dtype,
        largest=scale * float(shown.max()),
        formed=0.0 if in_kernel else product * (1.0 if scaled_after else scale),
        head=int(by_head.argmax()),
        scale=call.scale,
        width=query.size(-1),
        empty_rows=0 if keep is None else int((~keep.any(-1)).sum()),
        constants=call.mask_constants,
        finite_weights=bool(weights is not None and weights.isfinite().all()),
    )


# In these operations scores are formed, hidden or weighed.
_OF_SCORES = ("bmm", "mm", "baddbmm", "mul", "div", "add", "sub", "masked_fill", "where",
              "_to_copy", "_softmax", "softmax", "_safe_softmax", "exp", "sum")  # fmt: skip
_PROJECTIONS = ("addmm", "mm", "linear")


def guilty_scores(first: NonFinite, scores: Sequence[ScoreSize]) -> ScoreSize | None:
    """The attention call in whose scores it began; None: it began elsewhere."""
    made = first.origin
    if first.what == "weights" or (made is not None and made.backward):
        return None
    operator = "" if made is None else made.operator.rstrip("_")
    if made is not None and operator not in _OF_SCORES and "attention" not in operator:
        return None
    for each in scores:
        near = each.module == first.place or _inside(each.module, first.place)
        # The product may be made in a part of its own; a projection there is none.
        near = near or (operator not in _PROJECTIONS and _inside(first.place, each.module))
        empty = each.empty_rows and not each.finite_weights
        if near and (each.overflows or empty):
            return each
    return None


def _inside(inner: str, outer: str) -> bool:
    return bool(outer) and inner.startswith(outer + ".")


def name_of(dtype: torch.dtype) -> str:
    """As its users call it: fp16, bf16, fp32."""
    plain = str(dtype).removeprefix("torch.")
    return {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}.get(plain, plain)
