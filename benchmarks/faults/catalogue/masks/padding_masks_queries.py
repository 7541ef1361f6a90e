"""The padding mask stands at the queries' dimension: it hides rows, not keys."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, by_hand
from torch import Tensor, nn

ITEM = "masks: padding leak on the right"
EXPECTED = {"padding-leak"}
HOSTS = on("padding", families={"encoder", "encoder_decoder"})
NOT_ON = "decoders, where the look-ahead mask hides padding on the right"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return by_hand(call.but(keep=call.keep.transpose(-2, -1)))

    attention(module, host, change, "encoder")
