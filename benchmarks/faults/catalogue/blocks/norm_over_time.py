"""A normalisation takes mean and variance over time instead of the width."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, put
from benchmarks.faults.seams import time_dim, width_of
from torch import Tensor, nn

ITEM = "norms: LayerNorm over the wrong axis"
EXPECTED = {"norm-axis"}
HOSTS = on(without={"functions", "packed"})
NOT_ON = "the host whose norms are functions"


class OverTime(nn.Module):
    def __init__(self, width: int, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(self.dim, keepdim=True)
        variance = x.var(self.dim, keepdim=True, unbiased=False)
        return (x - mean) / (variance + 1e-5).sqrt() * self.weight + self.bias


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[0].norms[-1]


def alter(module: nn.Module, host: Host) -> None:
    norm = OverTime(width_of(module, host), time_dim(host))
    put(module, host.anatomy.layers[0].norms[-1], norm)
