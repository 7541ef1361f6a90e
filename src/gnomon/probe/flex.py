"""Evidence of `flex_attention`: the operands, and the functions that mask and change scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnomon.probe import masks
from gnomon.probe.fused import FusedEvidence


@dataclass(eq=False)
class FlexEvidence(FusedEvidence):
    """Operands as for a fused kernel; mask and bias are evaluated for all places at once.

    Args:
        score_mod: (score, b, h, q, k) → score.
        mask_mod: (b, h, q, k) → whether q may attend to k.
    """

    score_mod: Callable[..., Any] | None = None
    mask_mod: Callable[..., Any] | None = None

    def _places(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        query, key = self.query.tensor, self.key.tensor
        sizes = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        b, h, q, k = (
            torch.arange(size, device=query.device).view([-1 if a == b else 1 for b in range(4)])
            for a, size in enumerate(sizes)
        )
        return b, h, q, k

    def _scores(self) -> tuple[Tensor, Tensor]:
        """Scaled scores before and after `score_mod`, in fp32 or better."""
        query, key, _ = self.operands()
        assert query is not None and key is not None
        wide = torch.promote_types(query.dtype, torch.float32)
        scores = query.to(wide) @ key.to(wide).transpose(-1, -2) * (self.scale() or 1.0)
        if self.score_mod is None:
            return scores, scores
        return scores, self.score_mod(scores, *self._places()).expand_as(scores)

    def mask(self) -> tuple[Tensor | None, Tensor | None, tuple[float, ...]]:
        """See `Evidence`. A `score_mod` that does more than add leaves the bias None."""
        before, after = self._scores()
        keep = torch.ones_like(before, dtype=torch.bool)
        if self.mask_mod is not None:
            keep = keep & self.mask_mod(*self._places())
        bias: Tensor | None = None
        constants: tuple[float, ...] = ()
        if self.score_mod is not None:
            added = self.score_mod(torch.zeros_like(before), *self._places()).expand_as(before)
            finite, bias = masks.split(added)
            if finite is not None:
                constants = masks.constants(added, finite)
                keep = keep & finite
            if bias is not None:
                adds = torch.isclose(after, before + added, atol=1e-4, rtol=1e-4) | ~keep
                bias = masks.squeeze_broadcast(bias) if bool(adds.all()) else None
        keep_all = bool(keep.all())
        return (None if keep_all else masks.squeeze_broadcast(keep)), bias, constants

    def scores(self) -> Tensor:
        """See `Evidence`: recomputed, as `score_mod` may do more than add."""
        _, scores = self._scores()
        if self.mask_mod is not None:
            scores = scores.masked_fill(~self.mask_mod(*self._places()), -torch.inf)
        return scores
