"""The rows of some tokens are zero: they were added to the table and never filled."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import table
from torch import nn

ITEM = "embeddings: zeroed rows"
EXPECTED = {"embedding-rows"}
HOSTS = on(without={"packed"})


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.embedding


def alter(module: nn.Module, host: Host) -> None:
    table(module, host).data[80:86] = 0.0
