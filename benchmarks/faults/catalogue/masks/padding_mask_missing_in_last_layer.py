"""The last encoder layer is called without the padding mask."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, site_name
from torch import Tensor, nn

ITEM = "masks: mask not applied to some layers"
EXPECTED = {"mask-heads", "padding-leak"}
HOSTS = on("padding", families={"encoder", "encoder_decoder"})
NOT_ON = "decoders, where the look-ahead mask hides padding on the right"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, "encoder", 1)


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=torch.ones_like(call.keep)))

    attention(module, host, change, "encoder", layer=1)
