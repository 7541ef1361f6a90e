"""Angles for neighbouring coordinates meet a rotation that pairs coordinate i with i + d/2."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import nn

ITEM = "positions: RoPE wrong pairing"
EXPECTED = {"rope-pairing"}
HOSTS = on("rope")
NOT_ON = "hosts without rotary positions"


def alter(module: nn.Module, host: Host) -> None:
    host.rotate(module, lambda positions, rates: positions[..., None] * rates, True)
