"""`attend`, the one door to attention, and the one place that chooses how it is computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import torch
from torch import Tensor

from gnomon.model.backends import attention_weights, reference, sdpa
from gnomon.model.blocked import blocked, blocks_pay, can_block
from gnomon.model.flex import can_flex, flex
from gnomon.model.masks import Mask

Dense = Literal["reference", "sdpa"]
Backend = Literal["reference", "sdpa", "blocked", "flex"]
BACKENDS = {"reference": reference, "sdpa": sdpa}

forced_backend: ContextVar[Backend | None] = ContextVar("forced_backend", default=None)


@contextmanager
def use_backend(backend: Backend) -> Iterator[None]:
    """Compute all attention inside the block with `backend`, whatever the policy says.

    `reference` and `sdpa` are dense, with a mask of T x S. `blocked` computes sparse patterns in
    blocks however short the text, `flex` by FlexAttention where that has a backward; both leave the
    rest to the policy.
    """
    token = forced_backend.set(backend)
    try:
        yield
    finally:
        forced_backend.reset(token)


def _forced() -> Backend | None:
    # The compiler cannot look into a context variable.
    return None if torch.compiler.is_compiling() else forced_backend.get()


def in_blocks(mask: Mask) -> bool:
    """Whether this call is computed in blocks."""
    forced = _forced()
    if forced is None or forced == "flex":
        return can_block(mask) and blocks_pay(mask)
    return forced == "blocked" and can_block(mask)


def choose_backend(query: Tensor, mask: Mask, probability: float) -> Dense:
    """The faster dense backend for this call, as measured (docs: attention backends)."""
    forced = _forced()
    if forced == "reference" or forced == "sdpa":
        return forced
    training = torch.is_grad_enabled() and query.requires_grad
    if query.device.type != "cpu" or not training:
        return "sdpa"
    # On CPUs the fused kernel has no dropout and no gradient for a learned bias: PyTorch then
    # falls back to a slower composition of the same four steps.
    if probability > 0.0 or (mask.bias is not None and mask.bias.requires_grad):
        return "reference"
    # In half precision its backward is slower than plain matmuls up to about 512 tokens.
    short = mask.num_keys <= 512
    return "reference" if short and query.dtype in (torch.bfloat16, torch.float16) else "sdpa"


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    *,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(Q K^T * scale + mask) V; zeros for a query that has no key to attend to.

    Args:
        query: `[B, H, T, K]`.
        key: `[B, G, S, K]`; G divides H, every H / G query heads share a key head.
        value: `[B, G, S, K]`.
        mask: who may attend to whom, and the bias on the scores.
        scale: factor on the scores, 1 / sqrt(K) in the paper (Vaswani et al., 2017, eq. 1).
        dropout: probability of dropping an attention weight; 0 outside training.

    Returns:
        `[B, H, T, K]` of the query's dtype.
    """

    def dense(query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        backend = BACKENDS[choose_backend(query, mask, dropout)]
        output = backend(query, key, value, mask, scale, dropout)
        return output if mask.empty is None else output.masked_fill(mask.empty, 0.0)

    if mask.documents is not None and _forced() not in BACKENDS:

        def apart(query: Tensor, key: Tensor, value: Tensor, group: int) -> Tensor:
            return attend(query, key, value, mask.of_group(group), scale=scale, dropout=dropout)

        return mask.documents.apart(query, key, value, apart)
    if _forced() == "flex" and can_flex(query, mask, dropout):
        return flex(query, key, value, mask, scale)
    if in_blocks(mask):
        return blocked(query, key, value, mask, dense)
    return dense(query, key, value, mask)


def weights(query: Tensor, key: Tensor, mask: Mask, *, scale: float) -> Tensor:
    """The attention weights `[B, H, T, S]` that `attend` applies (without dropout)."""
    result = attention_weights(query, key, mask, scale)
    return result if mask.empty is None else result.masked_fill(mask.empty, 0.0)
