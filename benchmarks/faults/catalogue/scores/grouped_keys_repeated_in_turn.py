"""Grouped keys and values are tiled (k0 k1 k0 k1) where queries expect neighbours (k0 k0 k1 k1)."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention
from torch import Tensor, nn

ITEM = "scores: wrong head split"
EXPECTED = {"head-split", "conformance"}
HOSTS = on("rope", without={"functions", "packed"})
NOT_ON = "hosts without grouped-query heads"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        order = [0, 2, 1, 3]
        return attend(call.but(key=call.key[:, order], value=call.value[:, order]))

    attention(module, host, change)
