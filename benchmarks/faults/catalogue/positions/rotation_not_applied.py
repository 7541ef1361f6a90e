"""Rotary angles are all zero: the table was built before the positions were set."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import Tensor, nn

ITEM = "positions: missing"
EXPECTED = {"positions-missing"}
HOSTS = on("rope")
NOT_ON = "hosts without rotary positions"


def alter(module: nn.Module, host: Host) -> None:
    def angles(positions: Tensor, rates: Tensor) -> Tensor:
        return positions[..., None] * rates * 0.0

    host.rotate(module, angles, False)
