"""Hidden states are centred by the mean over the rows of the batch."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import time_dim, wrap
from torch import Tensor, nn

ITEM = "masks: batch rows leaking into each other"
EXPECTED = {"batch-leak"}
HOSTS = on(without={"functions"})
NOT_ON = "the host without a module for its feed-forward"


def alter(module: nn.Module, host: Host) -> None:
    rows = 1 - time_dim(host)

    def centred(self: Any, x: Tensor) -> Tensor:
        return self.inner(x - x.mean(rows, keepdim=True))

    wrap(module, host.anatomy.layers[0].up, centred)
