"""A bias of -100 keeps every unit of a feed-forward at zero."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from torch import nn

ITEM = "FFN: dead units"
EXPECTED = {"dead-ffn"}
HOSTS = on(without={"functions", "packed", "gated", "relative"})
NOT_ON = "feed-forwards without a bias, gated ones"


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[0].up


def alter(module: nn.Module, host: Host) -> None:
    part(module, host.anatomy.layers[0].up).bias.data.fill_(-100.0)
