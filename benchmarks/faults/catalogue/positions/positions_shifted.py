"""Every position is read one place further on: the offset of another model was kept."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import wrap
from torch import Tensor, nn

ITEM = "positions: shifted"
EXPECTED = {"positions-shifted", "conformance"}
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
NOT_ON = "sums of sinusoids, where a shift is a rotation the model can learn; offsets by design"


def alter(module: nn.Module, host: Host) -> None:
    def shifted(self: Any, positions: Tensor, *rest: Any) -> Tensor:
        return self.inner((positions + 1).clamp(max=63), *rest)

    for name in host.anatomy.positions:
        wrap(module, name, shifted)
