"""Masks repeated as b1 b2 b3 … for heads folded as b1 b1 b1 …: rows get others' masks."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention
from torch import Tensor, nn

ITEM = "masks: mask not applied to some heads; padding leak"
EXPECTED = {"mask-heads", "padding-leak"}
HOSTS = on("padding", families={"encoder", "encoder_decoder"})
NOT_ON = "decoders, where the look-ahead mask hides padding on the right"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        B, H, T, S = *call.query.shape[:3], call.key.shape[2]
        rows = call.keep.expand(B, -1, T, S)[:, :1]
        keep = rows.repeat(H, 1, 1, 1).view(B, H, T, S)
        return attend(call.but(keep=keep))

    attention(module, host, change, "encoder")
