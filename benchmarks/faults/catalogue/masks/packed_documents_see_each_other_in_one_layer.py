"""One layer forgets the document mask."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, look_ahead, site_name
from torch import Tensor, nn

ITEM = "masks: packed documents seeing each other"
EXPECTED = {"packed-documents"}
HOSTS = on("packed")
NOT_ON = "hosts without packing"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, "decoder", 1)


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=look_ahead(call)[None, None]))

    attention(module, host, change, layer=1)
