"""Two heads of a layer have the same queries and keys: a checkpoint's heads were tiled."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import head_rows, own_role, site_name
from torch import nn

ITEM = "scores: duplicate or tied heads"
EXPECTED = {"duplicate-heads"}
HOSTS = on(without={"one-head-modules", "packed"})
NOT_ON = "the host with a module per head"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, own_role(host), 0)


def alter(module: nn.Module, host: Host) -> None:
    for which in ("query", "key"):
        rows, K = head_rows(host, host.anatomy.layers[0], module, which)
        # With grouped keys the first two query heads share one anyway.
        if len(rows) == 4 * K:
            rows[K : 2 * K] = rows[:K]
