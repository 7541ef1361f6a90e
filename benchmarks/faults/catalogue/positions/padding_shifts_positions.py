"""Positions count slots, padding included: texts padded on the left begin at another place."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import wrap
from torch import Tensor, nn

ITEM = "positions: padding shifting positions"
EXPECTED = {"padding-shifts-positions", "left-padding"}
HOSTS = on("left-padding", "learned-positions")
NOT_ON = "hosts whose clean form has the same limit, and relative or rotary positions"


def alter(module: nn.Module, host: Host) -> None:
    def slots(self: Any, places: Tensor) -> Tensor:
        return self.inner(torch.arange(places.shape[1]).expand_as(places))

    for name in host.anatomy.positions:
        wrap(module, name, slots)
