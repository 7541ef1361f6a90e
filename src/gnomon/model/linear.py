"""Several linear projections of one input as a single matrix product."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon.model.recompute import cast_for_product


class FusedLinear(nn.Module):
    """Projections that share an input, computed as one matmul over stacked weights.

    One large matmul keeps the processor busier than several small ones. Each part keeps its own
    fan for initialisation and its own bias switch.

    Args:
        width: size of the input.
        sizes: output size of each part.
        biases: whether each part has a bias.
    """

    # x, weight, bias → x · weightᵀ + bias; training may put another in an instance.
    product: Callable[[Tensor, Tensor, Tensor | None], Tensor] = staticmethod(F.linear)

    def __init__(self, width: int, sizes: tuple[int, ...], biases: tuple[bool, ...]) -> None:
        super().__init__()
        assert len(sizes) == len(biases)
        self.sizes = sizes
        self.biases = biases
        self.weight = nn.Parameter(torch.empty(sum(sizes), width))
        with_bias = sum(size for size, bias in zip(sizes, biases, strict=True) if bias)
        self.bias = nn.Parameter(torch.empty(with_bias)) if with_bias else None
        self.low_rank: nn.Module | None = None  # what `gnomon.model.lora` adds

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., width]` to `[..., sum(sizes)]`, the parts side by side."""
        x = cast_for_product(x)
        y = self.product(x, self.weight, self.full_bias())
        return y if self.low_rank is None else y + self.low_rank(x)

    def full_bias(self) -> Tensor | None:
        """The bias over all parts, zero where a part has none."""
        if self.bias is None or all(self.biases):
            return self.bias
        parts = []
        start = 0
        for size, has_bias in zip(self.sizes, self.biases, strict=True):
            if has_bias:
                parts.append(self.bias[start : start + size])
                start += size
            else:
                parts.append(self.bias.new_zeros(size))
        return torch.cat(parts)

    @torch.no_grad()
    def initialise(self) -> None:
        """Xavier-uniform, each part by its own fan; biases zero."""
        for part in torch.split(self.weight, list(self.sizes)):
            nn.init.xavier_uniform_(part)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{self.weight.shape[1]} -> {self.sizes}, biases={self.biases}"
