"""Scores are multiplied by sqrt(d_k) instead of divided."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import attention
from torch import nn

ITEM = "scores: wrong 1/sqrt(d_k)"
EXPECTED = {"score-scale"}
HOSTS = on(without={"relative", "packed"})
NOT_ON = "hosts with relative bias, which have no factor by design"


def alter(module: nn.Module, host: Host) -> None:
    attention(module, host, lambda call, attend: attend(call.but(scale=1.0 / call.scale)))
