"""Queries and keys are handed over in the wrong order in one layer."""

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
    return site_name(host, module, own_role(host), 0)


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        if call.query.shape != call.key.shape:
            return attend(call)
        return attend(call.but(query=call.key, key=call.query))

    attention(module, host, change, own_role(host), layer=0)
