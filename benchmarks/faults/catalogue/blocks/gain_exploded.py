"""One norm's gain is 100 times what it was."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from benchmarks.faults.seams import gain
from torch import nn

ITEM = "norms: gamma abnormal"
EXPECTED = {"norm-weights"}
HOSTS = on(without={"functions", "packed"})
NOT_ON = "the host whose norms are functions"


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[1].norms[0]


def alter(module: nn.Module, host: Host) -> None:
    gain(part(module, host.anatomy.layers[1].norms[0])).data *= 100.0
