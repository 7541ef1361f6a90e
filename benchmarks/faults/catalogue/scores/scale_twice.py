"""Queries are divided by sqrt(d_k), and the scores again."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import attention
from torch import nn

ITEM = "scores: doubled 1/sqrt(d_k)"
EXPECTED = {"score-scale"}
HOSTS = on(without={"relative", "packed"})
NOT_ON = "hosts with relative bias, which have no factor by design"


def alter(module: nn.Module, host: Host) -> None:
    attention(module, host, lambda call, attend: attend(call.but(scale=call.scale**2)))
