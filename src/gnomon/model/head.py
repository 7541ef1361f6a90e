"""From the last hidden states to logits over the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.model.feedforward import ACTIVATIONS, Activation
from gnomon.model.linear import FusedLinear
from gnomon.model.norm import NormConfig, build_norm


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """What stands between hidden states and logits."""

    # linear: one projection; transform: dense, activation and norm before it (BERT's masked
    # language model); none: the model gives hidden states only
    kind: Literal["linear", "transform", "none"] = "linear"
    # a bias per vocabulary entry (BERT, Marian)
    bias: bool = False
    # multiply hidden states by d_model^-0.5 first (T5, where tables are tied)
    scale: bool = False


@dataclass(frozen=True)
class Projection:
    """Logits that nobody has made yet: of a large vocabulary they are the largest tensor there is.

    Attributes:
        hidden: `[..., D]`.
        table: `[V, D]`.
        bias: `[V]` or None.
    """

    hidden: Tensor
    table: Tensor
    bias: Tensor | None

    def logits(self) -> Tensor:
        """`[..., V]`."""
        return F.linear(self.hidden, self.table, self.bias)


class Head(nn.Module):
    """hidden W^T + b, with W the output table, which the caller owns."""

    def __init__(
        self,
        config: HeadConfig,
        norm: NormConfig,
        activation: Activation,
        d_model: int,
        vocab_size: int,
    ) -> None:
        super().__init__()
        self.scale = d_model**-0.5 if config.scale else 1.0
        transform = config.kind == "transform"
        self.dense = FusedLinear(d_model, (d_model,), (True,)) if transform else None
        self.norm = build_norm(norm, d_model) if transform else None
        self.activation = ACTIVATIONS[activation]
        self.bias = nn.Parameter(torch.empty(vocab_size)) if config.bias else None

    def forward(self, hidden: Tensor, table: Tensor) -> Tensor:
        """Map `[..., D]` to logits `[..., V]`."""
        return self.projection(hidden, table).logits()

    def projection(self, hidden: Tensor, table: Tensor) -> Projection:
        """What the logits of `hidden`, `[..., D]`, are the product of."""
        if self.dense is not None and self.norm is not None:
            hidden = self.norm(self.activation(self.dense(hidden)))
        if self.scale != 1.0:
            hidden = hidden * self.scale
        return Projection(hidden, table, self.bias)

    @torch.no_grad()
    def initialise(self) -> None:
        """The bias starts at zero."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)
