"""Positions as a bias on the attention scores: ALiBi and T5's relative buckets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnomon.model.patterns import offsets


@dataclass(frozen=True, kw_only=True)
class RelativeConfig:
    """T5's relative positions: one learned number per head and distance bucket."""

    num_buckets: int = 32
    # tokens; all larger distances share the last bucket
    max_distance: int = 128


class AlibiBias(nn.Module):
    """Minus slope times distance, the slopes a geometric series over heads (Press et al., 2022)."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def forward(self, num_queries: int, num_keys: int, device: torch.device) -> Tensor:
        """fp32 `[1, H, T, S]`; the queries are the last T of the S tokens."""
        return self.at(offsets(num_queries, num_keys, device))[None]

    def at(self, offset: Tensor) -> Tensor:
        """fp32 `[..., H, T, S]` at query-minus-key offsets `[..., T, S]`."""
        slopes = torch.tensor(alibi_slopes(self.num_heads), device=offset.device)
        return -slopes[:, None, None] * offset.abs().unsqueeze(-3)


def alibi_slopes(num_heads: int) -> list[float]:
    """2^(-8/H), 2^(-16/H), …; other than powers of two take every second slope of the next one."""
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (head + 1) / power) for head in range(power)]
    finer = [2.0 ** (-4.0 * (head + 1) / power) for head in range(0, 2 * (num_heads - power), 2)]
    return slopes + finer


class RelativeBias(nn.Module):
    """A learned bias per head and bucket of distance, shared by all layers (Raffel et al., 2020).

    An encoder splits its buckets between the two directions; a decoder spends all on the past.
    """

    def __init__(self, config: RelativeConfig, num_heads: int, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.max_distance = config.max_distance
        self.weight = nn.Parameter(torch.empty(config.num_buckets, num_heads))

    def forward(self, num_queries: int, num_keys: int, device: torch.device) -> Tensor:
        """`[1, H, T, S]`; the queries are the last T of the S tokens."""
        return self.at(offsets(num_queries, num_keys, device))[None]

    def at(self, offset: Tensor) -> Tensor:
        """`[..., H, T, S]` at query-minus-key offsets `[..., T, S]`."""
        return self.weight[self.buckets(offset)].movedim(-1, -3)

    def buckets(self, offset: Tensor) -> Tensor:
        """Bucket of each query-minus-key offset: exact when near, logarithmic when far."""
        num_buckets = self.weight.shape[0]
        if self.causal:
            distance = offset.clamp(min=0)
            first = torch.zeros_like(offset)
        else:
            num_buckets //= 2
            distance = offset.abs()
            first = (offset < 0) * num_buckets
        num_exact = num_buckets // 2
        ratio = distance.clamp(min=1).float() / num_exact
        steps = torch.log(ratio) / math.log(self.max_distance / num_exact)
        far = num_exact + (steps * (num_buckets - num_exact)).long()
        far = far.clamp(max=num_buckets - 1)
        return first + torch.where(distance < num_exact, distance, far)

    @torch.no_grad()
    def initialise(self) -> None:
        """Small numbers: heads start nearly without preference for a distance."""
        nn.init.normal_(self.weight, std=0.02)


ScoreBias = AlibiBias | RelativeBias
