"""A layer's first normalisation was left out."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, put
from torch import nn

ITEM = "conformance"
EXPECTED = {"conformance"}
HOSTS = on("config", without={"packed"})
NOT_ON = "hosts without a configuration"
WEIGHTS = "trained"


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[1].name


def alter(module: nn.Module, host: Host) -> None:
    put(module, host.anatomy.layers[1].norms[0], nn.Identity())
