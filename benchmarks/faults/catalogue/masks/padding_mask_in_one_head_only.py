"""The padding mask reaches the first head alone; the others attend to padding."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, for_heads, site_name
from torch import Tensor, nn

ITEM = "masks: mask not applied to some heads"
EXPECTED = {"mask-heads"}
HOSTS = on("padding", families={"encoder", "encoder_decoder"})
NOT_ON = "decoders, where the look-ahead mask hides padding on the right"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, "encoder", 0)


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        everything = torch.ones_like(call.keep)
        return attend(call.but(keep=for_heads(call, {1, 2, 3}, everything)))

    attention(module, host, change, "encoder", layer=0)
