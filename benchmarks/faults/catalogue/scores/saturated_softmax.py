"""Queries' and keys' projections are drawn from N(0, 1): each softmax is one-hot from the start."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import head_rows
from torch import nn

ITEM = "scores: saturated softmax"
EXPECTED = {"saturated-softmax"}
HOSTS = on(without={"one-head-modules", "packed"})
NOT_ON = "the host with a module per head"


def alter(module: nn.Module, host: Host) -> None:
    generator = torch.Generator().manual_seed(0)
    for layer in (*host.anatomy.encoder_layers, *host.anatomy.layers):
        for which in ("query", "key"):
            rows, _ = head_rows(host, layer, module, which)
            rows.copy_(torch.randn(rows.shape, generator=generator))
