"""Evidence of attention that only its kernel computes: the operands are all there is to see."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.probe import masks
from gnomon.probe.kept import Kept


@dataclass(eq=False)
class FusedEvidence:
    """Operands of `F.scaled_dot_product_attention`, as they were given.

    Args:
        query: `[..., T, K]`; `key` `[..., S, K]`; `value` `[..., S, K']`.
        mask: boolean (True = may attend) or additive, or None.
        given_scale: the argument; None: 1 / sqrt(K).
        factor: of scalings of queries and keys just before the call.
        heads: `[B, H]` of the first axis of a three-dimensional query, where known.
    """

    query: Kept
    key: Kept
    value: Kept
    mask_given: Kept | None
    is_causal: bool
    given_scale: float | None
    factors: tuple[float, float]
    result: Kept
    # by `expand` or `repeat_interleave` before the call
    repeats: int = 1
    heads: tuple[int, int] | None = None

    def operands(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """See `Evidence`."""
        query, key, value = (self._four(kept.tensor) for kept in (self.query, self.key, self.value))
        repeats = query.shape[1] // key.shape[1]
        if repeats > 1:
            key, value = (x.repeat_interleave(repeats, dim=1) for x in (key, value))
        if self.factors[0] != 1:
            query = query / self.factors[0]
        if self.factors[1] != 1:
            key = key / self.factors[1]
        return query, key, value

    def scale(self) -> float | None:
        """See `Evidence`."""
        last = (
            1 / math.sqrt(self.query.tensor.shape[-1])
            if self.given_scale is None
            else self.given_scale
        )
        return last * self.factors[0] * self.factors[1]

    def mask(self) -> tuple[Tensor | None, Tensor | None, tuple[float, ...]]:
        """See `Evidence`."""
        keep: Tensor | None = None
        bias: Tensor | None = None
        constants: tuple[float, ...] = ()
        num_queries, num_keys = self.query.tensor.shape[-2], self.key.tensor.shape[-2]
        if self.mask_given is not None:
            given = self.mask_given.tensor
            if given.dtype == torch.bool:
                keep = given
            else:
                keep, bias = masks.split(given)
                constants = masks.constants(given, keep)
            keep = None if keep is None else self._mask_four(keep)
            bias = None if bias is None else self._mask_four(bias)
        if self.is_causal:
            causal = masks.causal(num_queries, num_keys, self.query.tensor.device)[None, None]
            keep = causal if keep is None else keep & causal
        if keep is not None:
            keep = keep.expand(*keep.shape[:2], num_queries, num_keys)
            keep = None if bool(keep.all()) else masks.squeeze_broadcast(keep)
        return keep, bias, constants

    def scores(self) -> Tensor | None:
        """The kernel shows none."""
        return None

    def weights(self) -> None:
        """The kernel shows none."""

    def applied_weights(self) -> None:
        """The kernel shows none."""

    def key_repeats(self) -> int:
        """See `Evidence`."""
        query, key = self.query.tensor, self.key.tensor
        shared = query.shape[-3] // key.shape[-3] if query.dim() >= 4 else 1
        return self.repeats * shared

    def softmax_dim(self) -> int:
        """See `Evidence`."""
        return -1

    def output(self) -> Tensor | None:
        """See `Evidence`."""
        return self._four(self.result.tensor)

    def _four(self, tensor: Tensor) -> Tensor:
        """As `[B, H, ...]`."""
        if tensor.dim() == 2:
            return tensor[None, None]
        if tensor.dim() == 3:
            if self.heads is not None and math.prod(self.heads) == tensor.shape[0]:
                return tensor.reshape(*self.heads, *tensor.shape[1:])
            return tensor[:, None]
        return tensor.flatten(1, -3)

    def _mask_four(self, mask: Tensor) -> Tensor:
        dims = self.query.tensor.dim()
        while mask.dim() < dims:
            mask = mask[None]
        if dims >= 4 and mask.dim() > 4:
            wanted = (mask.shape[0], *self.query.tensor.shape[1:-2], *mask.shape[-2:])
            return mask.expand(wanted).flatten(1, -3)
        if mask.dim() == 3 and mask.shape[0] == 1:
            return mask[None]
        return self._four(mask)
