"""eps is 1e-24: a hidden state without variance gives infinities, and fp16 has no such number."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, norms_of
from torch import nn

ITEM = "norms: eps too small"
EXPECTED = {"norm-eps", "fp16-norm"}
HOSTS = on(without={"functions", "packed"})
NOT_ON = "hosts whose norms do not hold an eps"


def alter(module: nn.Module, host: Host) -> None:
    for norm in norms_of(module, host):
        for name in ("eps", "variance_epsilon"):
            if hasattr(norm, name):
                setattr(norm, name, 1e-24)
