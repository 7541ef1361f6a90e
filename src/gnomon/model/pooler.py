"""One vector for a whole text, from its first token."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnomon.model.linear import FusedLinear


class Pooler(nn.Module):
    """tanh(h_1 W + b), with h_1 the first token's hidden state (Devlin et al., 2019)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.dense = FusedLinear(d_model, (d_model,), (True,))

    def forward(self, hidden: Tensor) -> Tensor:
        """Map `[B, S, D]` to `[B, D]`."""
        return torch.tanh(self.dense(hidden[:, 0]))
