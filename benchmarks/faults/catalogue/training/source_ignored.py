"""Cross-attention contributes nothing in a trained translator: any source gives the same loss."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import attention
from torch import nn

ITEM = "training: source ignored"
EXPECTED = {"source-ignored"}
HOSTS = on("cross")
NOT_ON = "hosts without cross-attention"
WEIGHTS = "trained"


def alter(module: nn.Module, host: Host) -> None:
    attention(module, host, lambda call, attend: attend(call) * 0.0, "cross")
