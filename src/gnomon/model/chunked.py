"""Sliding-window attention in chunks: memory and time linear in the length, trainable anywhere."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.model.masks import Mask
from gnomon.model.patterns import SlidingWindow


def can_chunk(mask: Mask) -> bool:
    """Whether `mask` is a sliding window over a text long enough for chunks to pay."""
    if torch.compiler.is_compiling():
        return False  # how many chunks there are depends on the length
    return (
        isinstance(mask.pattern, SlidingWindow)
        and mask.bias is None
        and mask.num_queries == mask.num_keys
        and mask.num_keys > 3 * mask.pattern.window
    )


def chunked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    dense: Callable[[Tensor, Tensor, Tensor, Mask], Tensor],
) -> Tensor:
    """Queries in chunks as wide as the window attend to their own and the neighbouring chunks.

    Args:
        query: `[B, H, L, K]`.
        key: `[B, G, L, K]`.
        value: `[B, G, L, K]`.
        mask: a sliding window, with or without look-ahead and padding.
        dense: attention over a chunk, with the chunks as its batch.

    Returns:
        `[B, H, L, K]`.
    """
    assert isinstance(mask.pattern, SlidingWindow)
    B, H, L, K = query.shape
    W = mask.pattern.window
    num_chunks = -(-L // W)
    after = 0 if mask.causal else W  # how far a chunk's keys reach past its queries
    tail = num_chunks * W - L
    span = W + W + after

    def spread(x: Tensor) -> Tensor:
        """`[B, G, L, K]` as `[B * chunks, G, span, K]`, neighbours included."""
        padded = F.pad(x, (0, 0, W, tail + after))
        return padded.unfold(2, span, W).permute(0, 2, 1, 4, 3).flatten(0, 1)

    queries = F.pad(query, (0, 0, 0, tail)).view(B, H, num_chunks, W, K)
    queries = queries.transpose(1, 2).flatten(0, 1)
    inner = chunk_mask(mask, B, num_chunks, span)
    output = dense(queries, spread(key), spread(value), inner)
    output = output.view(B, num_chunks, H, W, K).transpose(1, 2)
    return output.reshape(B, H, num_chunks * W, K)[:, :, :L]


def chunk_mask(mask: Mask, batch_size: int, num_chunks: int, span: int) -> Mask:
    """The sliding window seen from inside each chunk, chunks in the batch."""
    assert isinstance(mask.pattern, SlidingWindow)
    W, device = mask.pattern.window, mask.device
    # Where a key lies before its query, for the chunk's keys that start W tokens before it.
    offset = torch.arange(W, 2 * W, device=device)[:, None] - torch.arange(span, device=device)
    near = offset.abs() < W
    if mask.causal:
        near &= offset >= 0
    real = mask.padding
    if real is None:
        real = torch.ones((1, mask.num_keys), dtype=torch.bool, device=device)
    beyond = (num_chunks - 2) * W + span - mask.num_keys
    real = F.pad(real, (W, beyond)).unfold(1, span, W)  # [B or 1, chunks, span]
    limit = real[:, :, None, :] & near
    limit = limit.expand(batch_size, -1, -1, -1).flatten(0, 1).unsqueeze(1)
    return Mask(W, span, device, limit=limit)
