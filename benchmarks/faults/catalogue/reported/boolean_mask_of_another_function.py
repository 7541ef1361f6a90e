"""A boolean mask made for nn.MultiheadAttention (True = hide) is given to fused attention."""

from __future__ import annotations

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, look_ahead
from torch import Tensor, nn

ITEM = "part E 4: a boolean mask means keep in one function and drop in the other"
THREADS = "pytorch #170415 #170400, LLMs-from-scratch #1061"
EXPECTED = {"mask-polarity"}
HOSTS = on("causal", without={"relative"})
NOT_ON = "encoders; hosts with a bias on the scores"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        hide = ~look_ahead(call)
        return F.scaled_dot_product_attention(
            call.query, call.key, call.value, hide, call.dropout, scale=call.scale
        )

    attention(module, host, change, "decoder")
