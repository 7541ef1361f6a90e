"""Token vectors are multiplied by sqrt(d_model) twice: once by the caller, once inside."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import rescale_embeddings, width_of
from torch import nn

ITEM = "embeddings: sqrt(d_model) scaling doubled"
EXPECTED = {"embedding-scale"}
HOSTS = on("scaled-embedding")
NOT_ON = "hosts whose design has no such factor"


def alter(module: nn.Module, host: Host) -> None:
    rescale_embeddings(module, host, width_of(module, host) ** 0.5)
