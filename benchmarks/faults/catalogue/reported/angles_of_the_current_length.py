"""Rotary angles stretch with the length of the present call; cached keys had other angles."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import Tensor, nn

ITEM = "part E 23: dynamic NTK inconsistent with the cache"
THREADS = "transformers #25104 #25306, vllm #3488 #5093"
EXPECTED = {"cache-differs"}
HOSTS = on("rope", "cache")
NOT_ON = "hosts without rotary positions"
WEIGHTS = "sharp"


def alter(module: nn.Module, host: Host) -> None:
    def angles(positions: Tensor, rates: Tensor) -> Tensor:
        length = positions.max() + 1
        stretch = 1.0 + torch.clamp(length - 16, min=0) / 4.0
        return positions[..., None] * rates / stretch

    host.rotate(module, angles, False)
