"""Hidden states go from [B, T, D] to [T, B, D] by view instead of transpose."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import wrap
from torch import Tensor, nn

ITEM = "masks: batch rows leaking into each other"
EXPECTED = {"batch-leak"}
HOSTS = on(families={"encoder"}, without={"functions"})
NOT_ON = "causal hosts, where it is a future leak first of all"


def alter(module: nn.Module, host: Host) -> None:
    def mixed(self: Any, x: Tensor) -> Tensor:
        B, T, D = x.shape
        return self.inner(x.reshape(T, B, D).transpose(0, 1))

    wrap(module, host.anatomy.layers[0].up, mixed)
