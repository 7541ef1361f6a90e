"""Attention as people write it: one class per habit, all computing the same thing unless named.

Each takes `x [B, T, D]` and `keep [B, 1, T, T]` (True = may attend) and has `num_heads`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

D, H, K = 16, 4, 4


class Base(nn.Module):
    """Projections and head splitting; subclasses attend."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.drop = nn.Dropout(0.5)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], H, K).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        return self.o(x.transpose(1, 2).reshape(x.shape[0], -1, D))

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return self.join(self.attend(*self.heads(x), keep))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        raise NotImplementedError


class Annotated(Base):
    """The function of the annotated paper: matmul, divide, masked_fill, softmax, dropout."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(keep == 0, -1e9)
        weights = self.drop(scores.softmax(dim=-1))
        return torch.matmul(weights, v)


class NanoStyle(Base):
    """One projection, scale as a factor, -inf."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (self.split(part) for part in self.qkv(x).split(D, dim=2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(~keep, float("-inf"))
        att = F.softmax(att, dim=-1)
        return self.join(self.drop(att) @ v)


class Einsum(Base):
    """No transposes: [B, T, H, K] throughout."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (p(x).view(*x.shape[:2], H, K) for p in (self.q, self.k, self.v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * K**-0.5
        scores = torch.where(keep, scores, torch.finfo(scores.dtype).min)
        out = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, -1), v)
        return self.o(out.reshape(*x.shape[:2], D))


class EinsumHeadsLast(Base):
    """Scores as [B, T, S, H], softmax over axis 2."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (p(x).view(*x.shape[:2], H, K) for p in (self.q, self.k, self.v))
        scores = torch.einsum("bqhd,bkhd->bqkh", q, k) / K**0.5
        scores = scores.masked_fill(~keep[:, 0, :, :, None], -1e4)
        out = torch.einsum("bqkh,bkhd->bqhd", scores.softmax(2), v)
        return self.o(out.reshape(*x.shape[:2], D))


class EinsumDots(Base):
    """Ellipsis in the equation."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        scores = torch.einsum("...td,...sd->...ts", q, k) / 2
        weights = scores.masked_fill(~keep, -torch.inf).softmax(-1)
        return torch.einsum("...ts,...sd->...td", weights, v)


class Additive(Base):
    """An additive mask as old BERTs make it."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        scores = q.matmul(k.mT) / K**0.5 + (1.0 - keep.float()) * -10000.0
        return F.softmax(scores, dim=-1).matmul(v)


class Bounded(Base):
    """The sum with the mask is kept from passing the lowest number, element by element."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        lowest = torch.finfo(q.dtype).min
        scores = q @ k.mT * K**-0.5 + torch.zeros_like(keep, dtype=q.dtype).masked_fill(
            ~keep, lowest
        )
        scores = torch.max(scores, torch.tensor(lowest))
        return self.drop(torch.maximum(scores, torch.tensor(lowest)).softmax(-1)) @ v


class ScaledQuery(Base):
    """The scale goes on the query, before the heads are merged into the batch for bmm."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        B, T, _ = x.shape
        q = self.split(self.q(x) * K**-0.5).reshape(B * H, T, K)
        k, v = (self.split(p(x)).reshape(B * H, T, K) for p in (self.k, self.v))
        scores = torch.bmm(q, k.transpose(1, 2))
        scores = scores.view(B, H, T, T) + keep.float().log()
        weights = scores.view(B * H, T, T).softmax(-1)
        return self.join(torch.bmm(weights, v).view(B, H, T, K))


class BothScaled(Base):
    """The fourth root on both sides."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        q, k = q * K**-0.25, k / K**0.25
        scores = q @ k.transpose(2, 3)
        scores[~keep.expand_as(scores)] = -1e30
        return F.softmax(scores, dim=3) @ v


class InPlace(Base):
    """Every step writes into the same memory."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        scores = q @ k.transpose(-2, -1)
        scores /= math.sqrt(K)
        scores.masked_fill_(~keep, -1e9)
        return scores.softmax(-1) @ v


class Baddbmm(Base):
    """Scale and mask inside the product."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (part.reshape(B * H, T, K) for part in self.heads(x))
        mask = torch.zeros(B, 1, T, T).masked_fill(~keep, -torch.inf)
        mask = mask.expand(B, H, T, T).reshape(B * H, T, T)
        scores = torch.baddbmm(mask, q, k.mT, alpha=K**-0.5)
        return self.join((scores.softmax(-1) @ v).view(B, H, T, K))


class LoopOverHeads(Base):
    """Three-dimensional attention, once per head."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        outs = []
        for q, k, v in zip(*(p(x).chunk(H, -1) for p in (self.q, self.k, self.v)), strict=True):
            scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(K)
            weights = scores.masked_fill(~keep[:, 0], -1e9).softmax(-1)
            outs.append(torch.bmm(weights, v))
        return self.o(torch.cat(outs, -1))


class ByHand(Base):
    """exp and sum in place of softmax."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        scores = (q @ k.mT / K**0.5).masked_fill(~keep, -1e9)
        scores = scores - scores.amax(-1, keepdim=True)
        raised = torch.exp(scores)
        return raised / raised.sum(-1, keepdim=True) @ v


class LogSoftmax(Base):
    """exp of log_softmax."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        scores = (q @ k.mT / K**0.5).masked_fill(~keep, -1e9)
        return F.log_softmax(scores, dim=-1).exp() @ v


class KeysFirst(Base):
    """Scores as keys · queries, so softmax runs over the axis before the last."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        scores = k @ q.transpose(-2, -1) / K**0.5
        weights = scores.masked_fill(~keep.mT, -1e9).softmax(-2)
        return (v.mT @ weights).mT


class NNSoftmax(Base):
    """A softmax module, and fp32 around it."""

    def __init__(self) -> None:
        super().__init__()
        self.normalise = nn.Softmax(dim=-1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        scores = (q @ k.mT).float() * K**-0.5
        return self.normalise(scores.masked_fill(~keep, -1e9)).type_as(v) @ v


class Fused(Base):
    """PyTorch's own function."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, keep)


class PairwiseBias(Base):
    """A learned bias of its own for each pair of places, with the mask added to it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(H, 32, 32))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
        T = q.shape[2]
        mask = torch.zeros(keep.shape).masked_fill(~keep, torch.finfo(q.dtype).min)
        scores = q @ k.mT * K**-0.5 + (self.table[:, :T, :T] + mask)
        return scores.softmax(-1) @ v


SAME: list[type[Base]] = [
    Annotated,
    NanoStyle,
    Einsum,
    EinsumHeadsLast,
    EinsumDots,
    Additive,
    Bounded,
    ScaledQuery,
    BothScaled,
    InPlace,
    Baddbmm,
    ByHand,
    LogSoftmax,
    KeysFirst,
    NNSoftmax,
    Fused,
]


def reference(module: Base, x: Tensor, keep: Tensor) -> dict[str, Any]:
    """The same attention in plain steps, from the module's own projections."""
    if isinstance(module, NanoStyle):
        q, k, v = (module.split(part) for part in module.qkv(x).split(D, dim=2))
    else:
        q, k, v = module.heads(x)
    raw = q @ k.mT
    weights = (raw / math.sqrt(K)).masked_fill(~keep, -torch.inf).softmax(-1)
    return {"query": q, "key": k, "value": v, "raw": raw, "weights": weights, "output": weights @ v}
