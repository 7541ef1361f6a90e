"""The softmax runs over dimension 1, as when there were no heads: heads compete for each pair."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, scores
from torch import Tensor, nn

ITEM = "scores: softmax on the wrong axis"
EXPECTED = {"softmax-axis"}
HOSTS = on(without={"one-head-modules", "packed"})
NOT_ON = "one-head modules, which have no such dimension"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        found = scores(call).masked_fill(~call.keep, torch.finfo(call.query.dtype).min)
        return F.dropout(found.softmax(1), call.dropout) @ call.value

    attention(module, host, change)
