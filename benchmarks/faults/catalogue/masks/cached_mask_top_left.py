"""With a cache, the look-ahead mask of new queries is aligned with the first keys, not the last."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention
from torch import Tensor, nn

ITEM = "masks: top-left instead of bottom-right with a cache"
EXPECTED = {"cached-mask-alignment", "cache-differs"}
HOSTS = on("causal", "cache")
NOT_ON = "hosts without a cache"
WEIGHTS = "sharp"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        T, S = call.query.shape[2], call.key.shape[2]
        if T < S:
            call = call.but(keep=torch.ones(T, S, dtype=torch.bool).tril()[None, None])
        return attend(call)

    attention(module, host, change, "decoder")
