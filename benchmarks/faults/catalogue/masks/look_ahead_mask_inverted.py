"""A triangle of ones meant as "hide" is read as "keep": each position sees only what follows it."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, by_hand, look_ahead
from torch import Tensor, nn

ITEM = "masks: mask polarity swapped"
EXPECTED = {"mask-polarity"}
HOSTS = on("causal")
NOT_ON = "encoders have no look-ahead mask"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return by_hand(call.but(keep=~look_ahead(call)[None, None]))

    attention(module, host, change, "decoder")
