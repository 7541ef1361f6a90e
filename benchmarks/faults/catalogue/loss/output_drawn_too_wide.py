"""The output projection is drawn from N(0, 1): the first loss is far above ln V."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from benchmarks.faults.seams import table
from torch import nn

ITEM = "initialisation: initial loss against ln V; logits spread"
EXPECTED = {"initial-loss", "logits-spread"}
HOSTS = on(without={"packed", "relative"})
NOT_ON = "hosts with relative bias, whose tables are as wide by design"


def alter(module: nn.Module, host: Host) -> None:
    name = host.anatomy.output
    found = part(module, name) if name else table(module, host)
    weight = found if isinstance(found, nn.Parameter) else found.weight
    generator = torch.Generator().manual_seed(0)
    weight.data.copy_(torch.randn(weight.shape, generator=generator))
