"""[B, T, D] is made [B, H, T, d_k] by view alone: a "head" holds a stretch of the text."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, own_role
from torch import Tensor, nn

ITEM = "scores: wrong head split"
EXPECTED = {"head-split"}
HOSTS = on(without={"one-head-modules", "rope", "relative", "packed", "cache"})
NOT_ON = "rotary and cached hosts, where the shapes would not fit; one-head modules"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        B, H, _, K = call.query.shape
        split = [
            x.transpose(1, 2).reshape(B, H, x.shape[2], K)
            for x in (call.query, call.key, call.value)
        ]
        query, key, value = split
        return attend(call.but(query=query, key=key, value=value))

    attention(module, host, change, own_role(host))
