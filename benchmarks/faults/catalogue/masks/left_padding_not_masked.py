"""Padding before the text is visible to a decoder; positions are counted right."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, look_ahead
from torch import Tensor, nn

ITEM = "masks: padding leak on the left"
EXPECTED = {"left-padding"}
HOSTS = on("causal", "left-padding")
NOT_ON = "hosts that do not claim to bear padding on the left"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=look_ahead(call)[None, None]))

    attention(module, host, change, "decoder")
