"""A head's part of the output projection is zero: pruned, or lost in a conversion."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from benchmarks.faults.seams import own_role, site_name
from torch import nn

ITEM = "scores: dead heads"
EXPECTED = {"dead-heads"}
HOSTS = on(without={"packed"})


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, own_role(host), 1)


def alter(module: nn.Module, host: Host) -> None:
    layer = host.anatomy.layers[1]
    weight = part(module, layer.out).data
    weight = weight.T if layer.transposed else weight
    weight[:, : weight.shape[1] // 4] = 0.0
