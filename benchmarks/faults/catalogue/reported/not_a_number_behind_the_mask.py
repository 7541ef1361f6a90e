"""The row of padding in the table is NaN; weights of zero do not hide it, as 0 * NaN is NaN."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.text import PAD
from benchmarks.faults.seams import table
from torch import nn

ITEM = "part E 3: NaN in padded keys and values leaks through the mask"
THREADS = "pytorch #101967"
EXPECTED = {"non-finite", "padding-leak", "embedding-rows"}
HOSTS = on(names={"einsum-encoder", "torch-seq2seq"})
NOT_ON = "hosts that read logits of padding from the same table"


def alter(module: nn.Module, host: Host) -> None:
    table(module, host).data[PAD] = float("nan")
