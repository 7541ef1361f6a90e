"""eps is 1 instead of 1e-5: small hidden states are not normalised."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, norms_of
from torch import nn

ITEM = "norms: eps too large"
EXPECTED = {"norm-eps"}
HOSTS = on(without={"functions", "packed"})
NOT_ON = "hosts whose norms do not hold an eps"


def alter(module: nn.Module, host: Host) -> None:
    for norm in norms_of(module, host):
        for name in ("eps", "variance_epsilon"):
            if hasattr(norm, name):
                setattr(norm, name, 1.0)
