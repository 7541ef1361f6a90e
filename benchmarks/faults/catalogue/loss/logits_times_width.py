"""Logits are multiplied by d_model: an output was scaled like an embedding, and twice."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import width_of, wrap
from torch import Tensor, nn

ITEM = "initialisation: logits spread"
EXPECTED = {"logits-spread", "initial-loss"}
HOSTS = on(
    names={
        "nano",
        "einsum-encoder",
        "annotated",
        "torch-seq2seq",
        "torch-mha-decoder",
        "per-head-decoder",
    }
)
NOT_ON = "hosts whose output has no module of its own, or very small logits at the start"


def alter(module: nn.Module, host: Host) -> None:
    def scaled(self: Any, x: Tensor) -> Tensor:
        return self.inner(x) * width_of(module, host)

    wrap(module, host.anatomy.output, scaled)
