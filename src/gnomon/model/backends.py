"""The ways to compute softmax(Q K^T * scale + mask) V, equal up to rounding.

Each takes query `[B, H, T, K]`, key and value `[B, G, S, K]` (G divides H: grouped-query heads),
the `Mask`, the scale and the dropout probability, and returns `[B, H, T, K]`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnomon.model.dropout import dropout
from gnomon.model.masks import Mask
from gnomon.model.recompute import recomputable


def attention_weights(query: Tensor, key: Tensor, mask: Mask, scale: float) -> Tensor:
    """softmax(Q K^T * scale + mask) as `[B, H, T, S]`; rows without a key to see are uniform."""
    B, H, T, K = query.shape
    G, S = key.shape[1], key.shape[2]
    # Queries of the heads that share a key head stand below one another: no copy of the keys.
    scores = (query.reshape(B, G, H // G * T, K) @ key.transpose(-2, -1)).view(B, H, T, S)
    is_half_on_cpu = scores.device.type == "cpu" and scores.dtype.itemsize == 2
    if is_half_on_cpu and not torch.compiler.is_compiling():
        additive = mask.additive(torch.float32)
        if additive is None or not additive.requires_grad:
            return _HalfSoftmax.apply(scores, additive, scale)  # type: ignore[no-untyped-call,no-any-return]
    additive = mask.additive(scores.dtype)
    scores = scores * scale if additive is None else torch.add(additive, scores, alpha=scale)
    # The softmax of half-precision scores accumulates in fp32 inside.
    return torch.softmax(scores, dim=-1)


class _HalfSoftmax(torch.autograd.Function):
    """softmax(scale · scores + additive) of half-precision scores, computed in fp32.

    PyTorch's own softmax of a half-precision tensor takes three times as long on a CPU as that of
    an fp32 one over as short rows as attention's, and its gradient seven times.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, additive: Tensor | None, scale: float) -> Tensor:
        ctx.scale = scale
        if additive is None:
            scaled = scores.float().mul_(scale)
        else:
            scaled = torch.add(additive, scores, alpha=scale)
        weights = torch.softmax(scaled, dim=-1).to(scores.dtype)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """With weights w and their gradient g: scale · (w·g - w·Σ(w·g))."""
        (saved,) = ctx.saved_tensors
        weights = saved.float()
        product = gradient.float().mul_(weights)
        total = product.sum(dim=-1, keepdim=True)
        result = torch.addcmul(product, weights, total, value=-1.0).mul_(ctx.scale)
        return result.to(saved.dtype), None, None


def reference(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float, probability: float
) -> Tensor:
    """The four steps one by one: scores, scaling and mask, softmax, weighted sum.

    On a CPU also the fastest for short training batches, because its backward is plain matmuls.
    """
    B, H, T, K = query.shape
    G, S = key.shape[1], key.shape[2]
    # Heads apart in memory, as the products want them; better here than unseen in each product.
    query, key, value = (
        recomputable(torch.Tensor.contiguous, each) for each in (query, key, value)
    )
    weights = recomputable(
        lambda query, key: attention_weights(query, key, mask, scale), query, key, costly=True
    )
    weights = dropout(weights, probability, training=True)
    return (weights.view(B, G, H // G * T, S) @ value).view(B, H, T, K)


def sdpa(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float, probability: float
) -> Tensor:
    """PyTorch's fused kernel (FlashAttention where the device has it)."""
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        # A mask together with is_causal has no agreed meaning among its kernels.
        attn_mask=None if mask.only_causal else fused_mask(mask, query.dtype),
        is_causal=mask.only_causal,
        dropout_p=probability,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )


def fused_mask(mask: Mask, dtype: torch.dtype) -> Tensor | None:
    """Booleans where they say it all, else bias and mask added up."""
    return mask.keep if mask.bias is None else mask.additive(dtype)
