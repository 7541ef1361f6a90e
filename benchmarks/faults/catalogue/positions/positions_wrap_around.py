"""Positions past a fixed block are taken modulo 16: token 16 stands where token 0 stood."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import wrap
from torch import Tensor, nn

ITEM = "positions: out of range"
EXPECTED = {"position-range"}
HOSTS = on(
    "learned-positions",
    without={"packed"},
    names={
        "hf-bert-eager",
        "hf-bert-sdpa",
        "hf-gpt2-eager",
        "hf-gpt2-sdpa",
        "nano",
        "einsum-encoder",
        "torch-mha-decoder",
        "gnomon-encoder",
        "per-head-decoder",
        "hf-distilbert-sdpa",
    },
)
NOT_ON = "hosts whose positions are not looked up by index"


def alter(module: nn.Module, host: Host) -> None:
    def wrapped(self: Any, positions: Tensor, *rest: Any) -> Tensor:
        return self.inner(positions % 16, *rest)

    for name in host.anatomy.positions:
        wrap(module, name, wrapped)
