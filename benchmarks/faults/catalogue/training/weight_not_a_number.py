"""One weight of a layer is NaN after a bad step."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from torch import nn

ITEM = "training: first non-finite module"
EXPECTED = {"non-finite"}
HOSTS = on(without={"packed"})


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[1].name


def alter(module: nn.Module, host: Host) -> None:
    part(module, host.anatomy.layers[1].out).data[0, 0] = float("nan")
