"""The look-ahead mask begins one diagonal too far up: each position sees the token it predicts."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, look_ahead, real_keys
from torch import Tensor, nn

ITEM = "masks: look-ahead off by one"
EXPECTED = {"look-ahead-off-by-one"}
HOSTS = on("causal")
NOT_ON = "encoders have no look-ahead mask"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=real_keys(call) & look_ahead(call, 1)))

    attention(module, host, change, "decoder")
