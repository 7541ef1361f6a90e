"""Fused attention is called with its causal flag while a cache holds keys: top-left aligned."""

from __future__ import annotations

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention
from torch import Tensor, nn

ITEM = "part E 6: causal flag misaligned when cached"
THREADS = "executorch #21749, onnx #8068, mlx #2967 #2836, SageAttention #372, pytorch #103082"
EXPECTED = {"cached-mask-alignment", "cache-differs"}
HOSTS = on("causal", "cache", without={"relative"})
NOT_ON = "hosts without a cache or with a bias on the scores"
WEIGHTS = "sharp"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        if call.query.shape[2] == call.key.shape[2]:
            return attend(call)
        return F.scaled_dot_product_attention(
            call.query, call.key, call.value, is_causal=True, scale=call.scale
        )

    attention(module, host, change, "decoder")
