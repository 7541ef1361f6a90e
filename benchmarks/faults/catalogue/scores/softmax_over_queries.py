"""The softmax runs over the queries instead of the keys."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, scores
from torch import Tensor, nn

ITEM = "scores: softmax on the wrong axis"
EXPECTED = {"softmax-axis"}
HOSTS = on(without={"packed"})


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        found = scores(call).masked_fill(~call.keep, torch.finfo(call.query.dtype).min)
        return F.dropout(found.softmax(-2), call.dropout) @ call.value

    attention(module, host, change)
