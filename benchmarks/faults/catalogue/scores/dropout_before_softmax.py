"""Dropout is applied to the scores instead of the weights: dropped ones count as 0."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, scores
from torch import Tensor, nn

ITEM = "scores: dropout before softmax"
EXPECTED = {"dropout-before-softmax"}
HOSTS = on(without={"packed"})


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        found = F.dropout(scores(call), max(call.dropout, 0.1), call.training)
        found = found.masked_fill(~call.keep, torch.finfo(found.dtype).min)
        return found.softmax(-1) @ call.value

    attention(module, host, change)
