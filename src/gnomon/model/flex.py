"""Sparse attention by PyTorch's FlexAttention: a kernel made for the pattern, on GPUs.

On CPUs it has no backward, so there it only serves to compare. On GPUs it is asked for by
`use_backend("flex")`; it was not measured there yet, so no policy chooses it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from gnomon.model.masks import Mask

SMALLEST_HEAD = 16  # what the GPU kernel takes


def can_flex(query: Tensor, mask: Mask, probability: float) -> bool:
    """Whether FlexAttention computes this call, backward included where that is wanted."""
    on_gpu = query.device.type == "cuda"
    training = torch.is_grad_enabled() and query.requires_grad
    return (
        mask.pattern is not None
        and mask.given_bias is None
        and mask.score_bias is None
        and mask.limit is None
        and mask.documents is None
        and mask.num_queries == mask.num_keys
        and probability == 0.0
        and not torch.compiler.is_compiling()
        and (query.shape[-1] >= SMALLEST_HEAD if on_gpu else not training)
    )


def flex(query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float) -> Tensor:
    """Attention under a sparse pattern; arguments and result as of `attend`."""
    if mask.flex_blocks is None:
        mask.flex_blocks = block_mask(mask, len(query))
    output: Tensor = kernel(query.device.type)(
        query,
        key,
        value,
        block_mask=mask.flex_blocks,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return output


def block_mask(mask: Mask, batch_size: int) -> Any:
    """Which blocks of keys hold anything for which blocks of queries, for all layers."""
    from torch.nn.attention.flex_attention import create_block_mask

    pattern, causal = mask.pattern, mask.causal
    assert pattern is not None
    shape = (batch_size, mask.num_keys)
    places, is_global, real = (
        x.expand(shape).contiguous() for x in (mask.places, mask.is_global, mask.real)
    )

    def seen(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        near = pattern.near(places[b, q], places[b, k]) | is_global[b, q] | is_global[b, k]
        near = near & real[b, k]
        return near & (k <= q) if causal else near

    on_gpu = mask.device.type == "cuda"
    size = mask.num_keys
    # Compiled, it never builds the mask of T x S that it looks at.
    return create_block_mask(seen, batch_size, None, size, size, mask.device, _compile=on_gpu)


@lru_cache(maxsize=2)
def kernel(device: str) -> Any:
    """FlexAttention, compiled where it is to be fast."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention) if device == "cuda" else flex_attention
