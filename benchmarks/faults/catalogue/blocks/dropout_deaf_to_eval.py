"""A dropout module overrides `train` and stays in training mode."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, put
from torch import nn

ITEM = "noise or dropout alive in eval"
EXPECTED = {"noise-in-eval"}
HOSTS = on("dropout-modules", without={"packed"})
NOT_ON = "hosts that use dropout as a function"


class Deaf(nn.Dropout):
    def train(self, mode: bool = True) -> nn.Module:
        return super().train(True)


def alter(module: nn.Module, host: Host) -> None:
    for name, old in list(module.named_modules()):
        if type(old) is nn.Dropout:
            put(module, name, Deaf(0.1))
