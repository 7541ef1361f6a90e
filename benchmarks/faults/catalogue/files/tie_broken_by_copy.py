"""The output has a copy of the embedding instead of the embedding itself, and is trained apart."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from torch import nn

ITEM = "ties: broken"
EXPECTED = {"broken-tie"}
HOSTS = on("tied", "config")
NOT_ON = "hosts whose configuration does not say that they are tied"


def alter(module: nn.Module, host: Host) -> None:
    output = part(module, host.anatomy.output)
    generator = torch.Generator().manual_seed(0)
    noise = 0.01 * torch.randn(output.weight.shape, generator=generator)
    output.weight = nn.Parameter(output.weight.detach().clone() + noise)
