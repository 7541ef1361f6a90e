"""Rotary angles are computed in bfloat16: far positions fall onto each other."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import Tensor, nn

ITEM = "positions: RoPE phases in low precision"
EXPECTED = {"rope-precision", "bf16-positions"}
HOSTS = on("rope")
NOT_ON = "hosts without rotary positions"


def alter(module: nn.Module, host: Host) -> None:
    def angles(positions: Tensor, rates: Tensor) -> Tensor:
        low = positions.to(torch.bfloat16)[..., None] * rates.to(torch.bfloat16)
        return low.float()

    host.rotate(module, angles, False)
