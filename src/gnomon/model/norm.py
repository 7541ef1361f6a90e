"""Normalisation over the width D only: LayerNorm and RMSNorm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class NormConfig:
    """Which normalisation, and where it stands around each sublayer."""

    # layer: (x - mean) / std; rms: x / root mean square (Zhang and Sennrich, 2019)
    kind: Literal["layer", "rms"] = "layer"
    # post: LN(x + f(x)), the 2017 paper's, wants warm-up; pre: x + f(LN(x));
    # sandwich: x + LN(f(LN(x))); deepnorm: LN(alpha * x + f(x)) (Wang et al., 2022)
    placement: Literal["post", "pre", "sandwich", "deepnorm"] = "post"
    # added to the variance; a smaller one underflows in half precision
    eps: float = 1e-5
    # an additive term beside the gain; RMSNorm never has one
    bias: bool = True


class RMSNorm(nn.RMSNorm):
    """x / root mean square of x, times a gain.

    Computed in the gain's dtype: under autocast half-precision input meets an fp32 gain, which
    PyTorch's fused kernel refuses.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., D]` to `[..., D]`."""
        return super().forward(x.to(self.weight.dtype))


def build_norm(config: NormConfig, width: int) -> nn.Module:
    """The normalisation `config` names, over the last dimension of `width` numbers."""
    if config.kind == "rms":
        return RMSNorm(width, eps=config.eps)
    return nn.LayerNorm(width, eps=config.eps, bias=config.bias)
