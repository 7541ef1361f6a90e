"""One decoder layer's cross-attention is called without the source mask."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, site_name
from torch import Tensor, nn

ITEM = "masks: cross-attention ignoring source padding; mask not applied to some layers"
EXPECTED = {"cross-padding", "mask-heads"}
HOSTS = on("cross")
NOT_ON = "hosts without cross-attention"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, "cross", 0)


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=torch.ones_like(call.keep)))

    attention(module, host, change, "cross", layer=0)
