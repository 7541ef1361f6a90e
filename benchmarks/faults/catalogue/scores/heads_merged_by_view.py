"""The heads' outputs [B, H, T, d_k] are made [B, T, D] by view, without the transpose back."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, own_role
from torch import Tensor, nn

ITEM = "scores: wrong head split"
EXPECTED = {"head-split"}
HOSTS = on(without={"one-head-modules", "packed"})
NOT_ON = "one-head modules, which concatenate"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        out = attend(call)
        B, H, T, K = out.shape
        return out.reshape(B, T, H, K).transpose(1, 2)

    attention(module, host, change, own_role(host))
