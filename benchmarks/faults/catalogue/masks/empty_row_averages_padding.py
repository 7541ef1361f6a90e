"""Attention by hand with the smallest finite number: a row of padding averages over its padding."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, by_hand, padded_role
from torch import Tensor, nn

ITEM = "masks: fully masked rows (uniform garbage)"
EXPECTED = {"empty-row"}
HOSTS = on("padding", "zero-row", families={"encoder", "decoder"})
NOT_ON = "hosts that promise no zeros for such rows; encoder-decoders, whose decoder skips them"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return by_hand(call)

    attention(module, host, change, padded_role(host))
