"""Scores at padding are set to 0 instead of minus infinity: it keeps a share of the softmax."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, by_hand
from torch import Tensor, nn

ITEM = "masks: padding leak; heads attending to padding"
EXPECTED = {"padding-leak", "attends-padding"}
HOSTS = on("padding", families={"encoder", "encoder_decoder"})
NOT_ON = "decoders, where the look-ahead mask hides padding on the right"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return by_hand(call, hidden=0.0)

    attention(module, host, change, "encoder")
