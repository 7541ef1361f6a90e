"""The mean over all positions is added to each position as a "summary of the text"."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import time_dim, wrap
from torch import Tensor, nn

ITEM = "masks: future leak (beside the attention)"
EXPECTED = {"future-leak"}
HOSTS = on("causal", without={"functions"})
NOT_ON = "encoders; the host without a module for its feed-forward"


def alter(module: nn.Module, host: Host) -> None:
    dim = time_dim(host)

    def summary(self: Any, x: Tensor) -> Tensor:
        return self.inner(x + 0.1 * x.mean(dim, keepdim=True))

    wrap(module, host.anatomy.layers[1].up, summary)
