"""The position-wise feed-forward sublayer, gated or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.model.dropout import dropout
from gnomon.model.linear import FusedLinear
from gnomon.model.recompute import recomputable

Activation = Literal["relu", "gelu", "gelu_tanh", "swish"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "swish": F.silu,
}


@dataclass(frozen=True, kw_only=True)
class FeedForwardConfig:
    """Width and shape of the feed-forward sublayer."""

    # F, the inner width; usually 4 x d_model, or 8/3 x d_model when gated
    size: int = 2048
    # gelu is the exact one (BERT), gelu_tanh its approximation (GPT-2, T5)
    activation: Activation = "relu"
    # activation(x W_gate) * (x W_up) instead of activation(x W_up) (Shazeer, 2020)
    gated: bool = False
    bias: bool = True
    # on the inner activations; the sublayer's output has the model's own dropout
    dropout: float = 0.0


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2 (Vaswani et al., 2017, eq. 2), or its gated form."""

    def __init__(self, config: FeedForwardConfig, d_model: int) -> None:
        super().__init__()
        self.gated = config.gated
        self.dropout = config.dropout
        self.activation = ACTIVATIONS[config.activation]
        num_parts = 2 if config.gated else 1
        self.up = FusedLinear(d_model, (config.size,) * num_parts, (config.bias,) * num_parts)
        self.down = FusedLinear(config.size, (d_model,), (config.bias,))

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., D]` to `[..., D]`."""
        hidden = recomputable(self.up, x, costly=True)
        hidden = recomputable(self.activate, hidden)
        output: Tensor = self.down(dropout(hidden, self.dropout, self.training))
        return output

    def activate(self, hidden: Tensor) -> Tensor:
        """Map `[..., F]`, gated `[..., 2F]`, to `[..., F]`."""
        if not self.gated:
            return self.activation(hidden)
        gate, linear = hidden.chunk(2, dim=-1)
        return self.activation(gate) * linear
