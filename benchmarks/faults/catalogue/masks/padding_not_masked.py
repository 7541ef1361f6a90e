"""The padding mask is never handed to the encoder's attention."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention
from torch import Tensor, nn

ITEM = "masks: padding leak on the right"
EXPECTED = {"padding-leak"}
HOSTS = on("padding", families={"encoder", "encoder_decoder"})
NOT_ON = "decoders, where the look-ahead mask hides padding on the right"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=torch.ones_like(call.keep)))

    attention(module, host, change, "encoder")
