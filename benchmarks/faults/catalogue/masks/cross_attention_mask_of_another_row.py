"""Cross-attention uses the mask of the row before: the batch was sorted, the masks were not."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention
from torch import Tensor, nn

ITEM = "masks: cross-attention ignoring source padding"
EXPECTED = {"cross-padding"}
HOSTS = on("cross")
NOT_ON = "hosts without cross-attention"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=call.keep.roll(1, dims=0)))

    attention(module, host, change, "cross")
