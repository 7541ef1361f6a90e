"""A sublayer's output replaces its input: the residual was forgotten."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import nn

ITEM = "residuals: missing"
EXPECTED = {"residual"}
HOSTS = on(has={"residual"}, without={"packed"})
NOT_ON = "hosts where the sum stands in code of a library or among functions"


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[0].name


def alter(module: nn.Module, host: Host) -> None:
    host.residual(module, 0, 0.0)
