"""New tokens were all given the mean of the table: ten rows are equal."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import table
from torch import nn

ITEM = "embeddings: duplicated rows"
EXPECTED = {"embedding-rows"}
HOSTS = on(without={"packed"})


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.embedding


def alter(module: nn.Module, host: Host) -> None:
    rows = table(module, host).data
    rows[78:88] = rows[5:].mean(0)
