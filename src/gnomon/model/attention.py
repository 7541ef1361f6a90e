"""Multi-head attention sublayers: from hidden states to hidden states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from gnomon.model.attend import attend, weights
from gnomon.model.cache import LayerCache
from gnomon.model.linear import FusedLinear
from gnomon.model.masks import Mask
from gnomon.model.norm import RMSNorm
from gnomon.model.patterns import BlockSparse, Pattern, SlidingWindow
from gnomon.model.recompute import recomputable
from gnomon.model.rope import Rotation
from gnomon.model.unpadded import Unpadded


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """Heads, scale, pattern and biases of every attention sublayer."""

    # H, the number of query heads
    num_heads: int = 8
    # G, heads of keys and values, each shared by H / G query heads; None: H
    num_key_value_heads: int | None = None
    # K, the width of a head; None: d_model / num_heads
    head_size: int | None = None
    # factor on the scores; None: 1 / sqrt(head_size); T5 has 1.0
    scale: float | None = None
    # on the attention weights
    dropout: float = 0.0
    # which keys a self-attention query sees: all; its neighbours nearer than `window`; the same in
    # every second layer, and in the others every `dilation`-th token as many steps away; its own
    # and the neighbouring blocks of `block_size`. All but full: and the global tokens
    pattern: Literal["full", "sliding_window", "dilated", "block_sparse"] = "full"
    # in tokens, itself included: a query sees keys less than this far away
    window: int = 256
    # dilated: tokens from one key to the next in the 2nd, 4th … layer of a stack
    dilation: int = 4
    # in tokens
    block_size: int = 64
    # of a sparse pattern: the first tokens of the text, which see all and are seen by all
    num_global_tokens: int = 1
    # the 2017 paper's projections have no biases; BERT has all, modern language models none
    bias_query_key: bool = False
    bias_value: bool = False
    bias_out: bool = False
    # RMSNorm of each head's queries and keys before they are turned, in self-attention: scores
    # cannot grow with the projections (Henry et al., 2020; Qwen3)
    query_key_norm: bool = False

    def key_value_heads(self) -> int:
        """G, with its default filled in."""
        return self.num_key_value_heads or self.num_heads

    def width(self, d_model: int) -> int:
        """K, with its default filled in."""
        return self.head_size or d_model // self.num_heads

    def sparsity(self) -> tuple[Pattern, ...]:
        """The sparse patterns that the layers of a stack take in turn; none for full attention.

        They look both ways: a decoder combines them with its look-ahead mask.
        """
        num_global = self.num_global_tokens
        if self.pattern == "sliding_window":
            return (SlidingWindow(self.window, num_global=num_global),)
        if self.pattern == "dilated":
            # With one dilation throughout, a token would never hear of its neighbours.
            steps = (1, self.dilation)
            return tuple(SlidingWindow(self.window, step, num_global) for step in steps)
        if self.pattern == "block_sparse":
            return (BlockSparse(self.block_size, num_global),)
        return ()


class Attention(nn.Module):
    """What self- and cross-attention share: head sizes, scale, dropout, the output projection."""

    def __init__(self, config: AttentionConfig, d_model: int) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.num_key_value_heads = config.key_value_heads()
        self.head_size = config.width(d_model)
        self.scale = self.head_size**-0.5 if config.scale is None else config.scale
        self.dropout = config.dropout
        self.out = FusedLinear(self.num_heads * self.head_size, (d_model,), (config.bias_out,))

    def sizes(self) -> tuple[int, int, int]:
        """Widths of all heads' queries, keys and values together."""
        shared = self.num_key_value_heads * self.head_size
        return self.num_heads * self.head_size, shared, shared

    def heads(self, x: Tensor, sizes: tuple[int, ...], rows: Unpadded | None) -> list[Tensor]:
        """`[B, L, sum(sizes)]` as `[B, heads, L, K]` for each of `sizes`.

        Args:
            x: what a product gave; `[1, N, sum(sizes)]` of real tokens only where there are `rows`.
            sizes: of each part, heads * K.
            rows: where the real tokens belong.
        """
        if rows is not None:
            parts = tuple(size // self.head_size for size in sizes)
            return rows.split_heads(x, parts, self.head_size)
        return [
            each.view(*each.shape[:2], -1, self.head_size).transpose(1, 2)
            for each in torch.split(x, list(sizes), dim=-1)
        ]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """Attend with all heads and project back: `[B, T, D]`, or `[1, N, D]` of real tokens."""
        probability = self.dropout if self.training else 0.0
        context = attend(query, key, value, mask, scale=self.scale, dropout=probability)
        rows = mask.query_rows
        merged = context.transpose(1, 2).flatten(2) if rows is None else rows.merge_heads(context)
        output: Tensor = self.out(merged)
        return output


class SelfAttention(Attention):
    """Queries, keys and values from the same tokens, in one matmul.

    Args:
        eps: of the norms of queries and keys.
    """

    def __init__(self, config: AttentionConfig, d_model: int, eps: float = 1e-5) -> None:
        super().__init__(config, d_model)
        norms = [
            RMSNorm(self.head_size, eps=eps) if config.query_key_norm else None for _ in range(2)
        ]
        self.query_norm, self.key_norm = norms
        biases = (config.bias_query_key, config.bias_query_key, config.bias_value)
        self.query_key_value = FusedLinear(d_model, self.sizes(), biases)

    def forward(
        self, x: Tensor, mask: Mask, rotation: Rotation | None, cache: LayerCache | None
    ) -> Tensor:
        """Map `[B, T, D]` to `[B, T, D]`.

        Args:
            x: hidden states; with a cache, of the new tokens only.
            mask: over the cached and the new tokens.
            rotation: RoPE's angles, or None.
            cache: earlier keys and values; the new ones are appended.
        """
        query, key, value = self.heads(self.query_key_value(x), self.sizes(), mask.query_rows)
        if self.query_norm is not None and self.key_norm is not None:
            # Back in their own dtype: the gain is fp32 also where the rest is computed in half.
            query, key = self.query_norm(query).type_as(value), self.key_norm(key).type_as(value)
        if rotation is not None:
            query, key = rotation.turn(query), rotation.turn(key)
        if cache is not None:
            key, value = cache.append(key, value)
        return self.attend(query, key, value, mask)


class CrossAttention(Attention):
    """Queries from the decoder, keys and values from the encoder's output (the memory)."""

    def __init__(self, config: AttentionConfig, d_model: int) -> None:
        super().__init__(config, d_model)
        query_size, key_size, value_size = self.sizes()
        self.query = FusedLinear(d_model, (query_size,), (config.bias_query_key,))
        biases = (config.bias_query_key, config.bias_value)
        self.key_value = FusedLinear(d_model, (key_size, value_size), biases)

    def forward(
        self, x: Tensor, memory: Tensor | None, mask: Mask, cache: LayerCache | None
    ) -> Tensor:
        """Map `[R, T, D]` to `[R, T, D]`.

        Args:
            x: the decoder's hidden states.
            memory: `[B, S, D]`; read only while the cache does not hold its keys and values.
            mask: over the memory.
            cache: keeps the memory's keys and values after the first call. Where it has fewer
                rows than `x`, neighbouring rows share one: their queries stand side by side,
                and nothing is repeated.
        """
        if cache is not None and cache.memory_key is not None and cache.memory_value is not None:
            key, value = cache.memory_key, cache.memory_value
        else:
            assert memory is not None
            both = recomputable(self.key_value, memory, costly=True)
            key, value = self.heads(both, self.sizes()[1:], mask.key_rows)
            if cache is not None:
                cache.memory_key, cache.memory_value = key, value
        rows = mask.query_rows
        grouped = x.reshape(key.shape[0], -1, x.shape[-1]) if rows is None else x
        projected = recomputable(self.query, grouped, costly=True)
        (query,) = self.heads(projected, self.sizes()[:1], rows)
        if cache is not None and cache.keeps_attention:
            cache.memory_attention = weights(query, key, mask, scale=self.scale).mean(1)
        return self.attend(query, key, value, mask).view_as(x)
