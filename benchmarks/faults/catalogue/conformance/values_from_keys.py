"""Values are the keys: one name was typed twice."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, own_role, site_name
from torch import Tensor, nn

ITEM = "conformance"
EXPECTED = {"conformance"}
HOSTS = on("config", without={"packed"})
NOT_ON = "hosts without a configuration"
WEIGHTS = "trained"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, own_role(host), 1)


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(value=call.key))

    attention(module, host, change, own_role(host), layer=1)
