"""Sparse attention patterns: who sees whom when not everyone sees everyone.

A pattern is a rule over the places of two tokens in their text, padding not counted. It looks both
ways: a decoder combines it with its look-ahead mask. Whatever the rule, global tokens see everyone
and are seen by everyone (Beltagy et al., 2020, §3.1).
"""

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
    """Keys less than `window` steps away, on either side (Beltagy et al., 2020).

    A step is `dilation` tokens: with more than 1, a query sees every so manieth token only.
    """

    window: int
    dilation: int = 1
    # the first tokens of the text, which are global
    num_global: int = 0

    @property
    def unit(self) -> int:
        """Where the text may be cut without changing the rule: at multiples of so many tokens."""
        return 1

    @property
    def reach(self) -> int:
        """How many steps before a query its furthest key may stand."""
        return self.window - 1

    def near(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether a query sees a key, by their places in the text; they broadcast."""
        offset = query - key
        near = offset.abs() < self.window * self.dilation
        return near if self.dilation == 1 else near & (offset % self.dilation == 0)

    def oldest(self, query: int) -> int:
        """The first place that a query at `query` or any later one may see, global ones aside."""
        return max(query - self.reach * self.dilation, 0)


@dataclass(frozen=True)
class BlockSparse:
    """Keys in the query's own block and its neighbours (Zaheer et al., 2020, no random blocks)."""

    block_size: int
    # the first tokens of the text, which are global
    num_global: int = 0
    dilation = 1

    @property
    def unit(self) -> int:
        """Where the text may be cut without changing the rule: at multiples of so many tokens."""
        return self.block_size

    @property
    def reach(self) -> int:
        """How many tokens before its block a query's furthest key may stand."""
        return self.block_size

    def near(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether a query sees a key, by their places in the text; they broadcast."""
        return (query // self.block_size - key // self.block_size).abs() <= 1

    def oldest(self, query: int) -> int:
        """The first place that a query at `query` or any later one may see, global ones aside."""
        return max((query // self.block_size - 1) * self.block_size, 0)


Pattern = SlidingWindow | BlockSparse
