"""Positions are computed and not added."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import wrap
from torch import Tensor, nn

ITEM = "positions: missing"
EXPECTED = {"positions-missing"}
HOSTS = on(has={"anatomy"}, without={"relative", "rope", "packed"})
NOT_ON = "rotary hosts (positions/rotation_not_applied), hosts with relative bias"


def alter(module: nn.Module, host: Host) -> None:
    def nothing(self: Any, x: Tensor, *rest: Any, **more: Any) -> Tensor:
        return x if "adds-positions" in host.traits else self.inner(x, *rest, **more) * 0.0

    for name in host.anatomy.positions:
        wrap(module, name, nothing)
