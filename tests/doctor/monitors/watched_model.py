"""A hand-written language model of two layers whose attention can be spoilt, and a loop for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCAB, WIDTH = 50, 32


class Attention(nn.Module):
    """Two heads written by hand; scale and mask as a constant, as in the Annotated Transformer."""

    def __init__(self, *, scale: bool = True, constant: float | None = None) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.scale, self.constant = scale, constant

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        def heads(y: Tensor) -> Tensor:
            return y.view(*y.shape[:2], 2, -1).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = q @ k.transpose(-1, -2)
        if self.scale:
            scores = scores / q.size(-1) ** 0.5
        lowest = torch.finfo(scores.dtype).min if self.constant is None else self.constant
        bias = torch.zeros(hidden.shape).masked_fill(hidden, lowest).to(scores.dtype)
        weights = (scores + bias).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention(**options)
        self.feedforward = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm(x), hidden))
        return x + self.feedforward(x)


class LanguageModel(nn.Module):
    """`hide_all`: the first row's padding hides every key of its queries, as a bad mask does."""

    def __init__(self, *, hide_all: bool = False, **options: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Block(**options) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCAB)
        self.hide_all = hide_all

    def forward(self, ids: Tensor) -> Tensor:
        hidden = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool).triu(1)
        if self.hide_all:
            hidden = hidden | (torch.arange(len(ids)) == 0)[:, None, None, None]
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, hidden)
        return self.head(x)


def batch(seed: int = 0) -> Tensor:
    return torch.randint(1, VOCAB, (4, 12), generator=torch.Generator().manual_seed(seed))


def loss_for(ids: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda logits: F.cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten()
    )
