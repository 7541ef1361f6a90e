"""Scores are divided by sqrt(d_model) instead of the head's sqrt(d_k)."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import attention, width_of
from torch import nn

ITEM = "scores: wrong 1/sqrt(d_k)"
EXPECTED = {"score-scale"}
HOSTS = on(without={"relative", "packed"})
NOT_ON = "hosts with relative bias, which have no factor by design"


def alter(module: nn.Module, host: Host) -> None:
    scale = width_of(module, host) ** -0.5
    attention(module, host, lambda call, attend: attend(call.but(scale=scale)))
