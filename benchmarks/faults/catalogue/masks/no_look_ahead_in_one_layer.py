"""The look-ahead mask is not handed to the second decoder layer."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, real_keys, site_name
from torch import Tensor, nn

ITEM = "masks: future leak; mask not applied to some layers"
EXPECTED = {"future-leak", "mask-heads"}
HOSTS = on("causal")
NOT_ON = "encoders see everything by intent"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, "decoder", 1)


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=real_keys(call).expand(-1, -1, call.query.shape[2], -1)))

    attention(module, host, change, "decoder", layer=1)
