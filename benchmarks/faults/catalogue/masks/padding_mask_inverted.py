"""The padding mask has the other meaning: padding is seen, the text is not."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, by_hand
from torch import Tensor, nn

ITEM = "masks: mask polarity swapped"
EXPECTED = {"mask-polarity"}
HOSTS = on("padding", families={"encoder", "encoder_decoder"})
NOT_ON = "decoders, where only the look-ahead mask can be told (masks/look_ahead_mask_inverted)"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return by_hand(call.but(keep=~call.keep))

    attention(module, host, change, "encoder")
