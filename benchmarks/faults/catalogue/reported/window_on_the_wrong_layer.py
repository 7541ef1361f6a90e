"""A sliding window of four tokens is applied to a layer that the configuration makes full."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, look_ahead, site_name
from torch import Tensor, nn

ITEM = "part E 30: an option hits other layers"
THREADS = "transformers #35896, diffusers #11903"
EXPECTED = {"conformance"}
HOSTS = on("config", "causal", families={"decoder"})
NOT_ON = "hosts without a configuration"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, "decoder", 1)


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=call.keep & ~look_ahead(call, -4)))

    attention(module, host, change, "decoder", layer=1)
