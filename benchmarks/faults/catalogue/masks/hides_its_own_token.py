"""The look-ahead mask hides the diagonal: no position but the first sees its own token."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, look_ahead
from torch import Tensor, nn

ITEM = "masks: look-ahead off by one"
EXPECTED = {"look-ahead-off-by-one"}
HOSTS = on("causal")
NOT_ON = "encoders have no look-ahead mask"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        keep = call.keep & look_ahead(call, -1)
        own = call.keep & look_ahead(call)
        return attend(call.but(keep=torch.where(keep.any(-1, keepdim=True), keep, own)))

    attention(module, host, change, "decoder")
