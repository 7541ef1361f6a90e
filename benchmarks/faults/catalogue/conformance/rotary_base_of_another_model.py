"""Rotary angles have base 500,000 where the configuration says another."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import Tensor, nn

ITEM = "conformance"
EXPECTED = {"conformance"}
HOSTS = on("config", "rope")
NOT_ON = "hosts without rotary positions or without a configuration"
WEIGHTS = "trained"


def alter(module: nn.Module, host: Host) -> None:
    def angles(positions: Tensor, rates: Tensor) -> Tensor:
        count = rates.shape[-1]
        return positions[..., None] * 500_000.0 ** (-torch.arange(count) / count)

    host.rotate(module, angles, False)
