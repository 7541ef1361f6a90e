"""A convolution over time with padding on both sides in the feed-forward of a decoder."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from benchmarks.faults.seams import time_dim, width_of, wrap
from torch import Tensor, nn

ITEM = "masks: future leak (beside the attention)"
EXPECTED = {"future-leak"}
HOSTS = on("causal", without={"functions"})
NOT_ON = "encoders; the host without a module for its feed-forward"


def alter(module: nn.Module, host: Host) -> nn.Module:
    dim = time_dim(host)

    def smoothed(self: Any, x: Tensor) -> Tensor:
        x = x if dim == 1 else x.transpose(0, 1)
        y = self.convolution(x.transpose(1, 2)).transpose(1, 2)
        y = x + y
        return self.inner(y if dim == 1 else y.transpose(0, 1))

    up = host.anatomy.layers[0].up
    wrap(module, up, smoothed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        width = width_of(module, host)
        part(module, up).convolution = nn.Conv1d(width, width, 3, padding=1, groups=width)
    return module
