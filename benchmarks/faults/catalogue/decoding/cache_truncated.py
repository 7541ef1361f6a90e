"""Only the last four entries of the cache are attended to."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention
from torch import Tensor, nn

ITEM = "decoding: cache truncated"
EXPECTED = {"cache-differs"}
HOSTS = on("causal", "cache")
NOT_ON = "hosts without a cache"
WEIGHTS = "sharp"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        T, S = call.query.shape[2], call.key.shape[2]
        if T < S:
            recent = torch.arange(S) >= S - 4
            call = call.but(keep=call.keep & recent)
        return attend(call)

    attention(module, host, change, "decoder")
