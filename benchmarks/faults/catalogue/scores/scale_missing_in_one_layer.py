"""The second layer's scores are not scaled."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, own_role, site_name
from torch import Tensor, nn

ITEM = "scores: missing 1/sqrt(d_k)"
EXPECTED = {"score-scale"}
HOSTS = on(without={"relative", "packed"})
NOT_ON = "hosts with relative bias, which have no factor by design"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, own_role(host), 1)


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(scale=1.0))

    attention(module, host, change, own_role(host), layer=1)
