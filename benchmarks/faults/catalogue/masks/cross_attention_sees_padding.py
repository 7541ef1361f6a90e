"""Cross-attention gets no mask of the source: the decoder reads the encoder's padding."""

from __future__ import annotations

import torch
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
        return attend(call.but(keep=torch.ones_like(call.keep)))

    attention(module, host, change, "cross")
