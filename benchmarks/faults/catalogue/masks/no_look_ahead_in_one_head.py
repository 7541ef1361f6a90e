"""One head of the first decoder layer looks ahead: the mask was built for one head fewer."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, for_heads, real_keys, site_name
from torch import Tensor, nn

ITEM = "masks: future leak; mask not applied to some heads"
EXPECTED = {"future-leak", "mask-heads"}
HOSTS = on("causal")
NOT_ON = "encoders see everything by intent"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, "decoder", 0)


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=for_heads(call, {3}, real_keys(call))))

    attention(module, host, change, "decoder", layer=0)
