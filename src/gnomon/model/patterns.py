"""Sparse attention patterns: who sees whom when not everyone sees everyone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def offsets(num_queries: int, num_keys: int, device: torch.device) -> Tensor:
    """`[T, S]`: how many tokens each key lies before each query (negative: after it).

    The queries are the last T of the S tokens.
    """
    queries = torch.arange(num_keys - num_queries, num_keys, device=device)
    return queries[:, None] - torch.arange(num_keys, device=device)


@dataclass(frozen=True)
class SlidingWindow:
    """Keys less than `window` tokens away, on either side (Beltagy et al., 2020)."""

    window: int

    def mask(
        self, num_queries: int, num_keys: int, device: torch.device, padding: Tensor | None
    ) -> Tensor:
        """Bool `[1, 1, T, S]`."""
        return (offsets(num_queries, num_keys, device).abs() < self.window)[None, None]


@dataclass(frozen=True)
class BlockSparse:
    """Keys in the query's own block and its neighbours, and global tokens.

    The first `num_global` tokens see everyone and are seen by everyone (Beltagy et al., 2020;
    Zaheer et al., 2020, without their random blocks).
    """

    block_size: int
    num_global: int

    def mask(
        self, num_queries: int, num_keys: int, device: torch.device, padding: Tensor | None
    ) -> Tensor:
        """Bool `[1, 1, T, S]`, or `[B, 1, T, S]` where padding before the start is not counted."""
        key = torch.arange(num_keys, device=device)[None, None, None]
        if padding is not None:
            key = (padding.cumsum(dim=-1) - 1).clamp(min=0)[:, None, None]
        query = key[..., num_keys - num_queries :].transpose(-2, -1)
        near = (query // self.block_size - key // self.block_size).abs() <= 1
        return near | (key < self.num_global) | (query < self.num_global)


Pattern = SlidingWindow | BlockSparse
