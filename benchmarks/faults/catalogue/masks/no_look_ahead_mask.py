"""The decoder has no look-ahead mask at all: every position sees the whole target."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, real_keys
from torch import Tensor, nn

ITEM = "masks: future leak"
EXPECTED = {"future-leak"}
HOSTS = on("causal")
NOT_ON = "encoders see everything by intent"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=real_keys(call).expand(-1, -1, call.query.shape[2], -1)))

    attention(module, host, change, "decoder")
