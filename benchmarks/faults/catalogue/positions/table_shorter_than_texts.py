"""The table of positions has 32 rows, while texts of 64 tokens are in use."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part, put
from torch import nn

ITEM = "positions: out of range (learned: error)"
EXPECTED = {"position-range", "trained-length"}
HOSTS = on(
    "learned-positions",
    names={
        "nano",
        "einsum-encoder",
        "torch-mha-decoder",
        "per-head-decoder",
        "hf-gpt2-eager",
        "hf-gpt2-sdpa",
    },
    without={"packed"},
)
NOT_ON = "hosts with further buffers of the table's length"


def alter(module: nn.Module, host: Host) -> None:
    (name,) = host.anatomy.positions
    old = part(module, name)
    new = nn.Embedding(32, old.weight.shape[1])
    new.weight.data = old.weight.data[:32].clone()
    put(module, name, new)
