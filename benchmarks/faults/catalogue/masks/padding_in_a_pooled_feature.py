"""The mean over all slots, padding included, is added to every position of the encoder."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import wrap
from torch import Tensor, nn

ITEM = "masks: padding leak on the right (beside the attention)"
EXPECTED = {"padding-leak"}
HOSTS = on("padding", families={"encoder"})
NOT_ON = "decoders, where it is a future leak (masks/future_through_a_mean)"


def alter(module: nn.Module, host: Host) -> None:
    def pooled(self: Any, x: Tensor) -> Tensor:
        return self.inner(x + 0.2 * x.mean(1, keepdim=True))

    wrap(module, host.anatomy.layers[0].up, pooled)
