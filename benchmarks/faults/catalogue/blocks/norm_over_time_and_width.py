"""A normalisation takes mean and variance over time and width together, as for images."""

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


class OverBoth(nn.Module):
    def __init__(self, width: int, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.dims = (dim, 2)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(self.dims, keepdim=True)
        variance = x.var(self.dims, keepdim=True, unbiased=False)
        return (x - mean) / (variance + 1e-5).sqrt() * self.weight + self.bias


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[1].norms[0]


def alter(module: nn.Module, host: Host) -> None:
    norm = OverBoth(width_of(module, host), time_dim(host))
    put(module, host.anatomy.layers[1].norms[0], norm)
