"""Weight decay has shrunk all gains of a trained model to a hundredth."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, norms_of
from benchmarks.faults.seams import gain
from torch import nn

ITEM = "norms: gamma abnormal"
EXPECTED = {"norm-weights"}
HOSTS = on(without={"functions", "packed"})
NOT_ON = "the host whose norms are functions"
WEIGHTS = "trained"


def alter(module: nn.Module, host: Host) -> None:
    for norm in norms_of(module, host):
        gain(norm).data *= 0.01
