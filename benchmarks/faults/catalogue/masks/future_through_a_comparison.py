"""A feature of the whole text is compared with a threshold and switches a gate at all positions."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, time_dim, wrap
from torch import Tensor, nn

ITEM = "masks: future leak (through an operation without a gradient)"
EXPECTED = {"future-leak"}
HOSTS = on("causal", without={"gated"})
NOT_ON = "encoders; layers whose feed-forward has no projection by itself"


def alter(module: nn.Module, host: Host) -> None:
    dim = time_dim(host)

    def gated(self: Any, x: Tensor) -> Tensor:
        # "Is there a strong word anywhere?": no gradient flows through the comparison.
        strong = (x.mean(dim, keepdim=True) > 0).to(x.dtype).mean(-1, keepdim=True)
        return self.inner(x) * (0.5 + strong)

    up = host.anatomy.layers[0].up
    if up:
        wrap(module, up, gated)
    else:
        attention(module, host, lambda call, attend: gate_values(call, attend), "decoder", layer=0)


def gate_values(call: Call, attend: Attend) -> Tensor:
    strong = (call.value.mean(2, keepdim=True) > 0).to(call.value.dtype)
    return attend(call) * (0.5 + strong)
