"""After a diverged start all queries and keys of a trained model lie along one direction."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import head_rows, width_of
from torch import nn

ITEM = "scores: entropy collapse"
EXPECTED = {"entropy-collapse", "saturated-softmax"}
HOSTS = on(without={"one-head-modules", "packed"})
NOT_ON = "the host with a module per head"
WEIGHTS = "trained"


def alter(module: nn.Module, host: Host) -> None:
    generator = torch.Generator().manual_seed(0)
    for layer in (*host.anatomy.encoder_layers, *host.anatomy.layers):
        direction = torch.randn(width_of(module, host), generator=generator)
        for which in ("query", "key"):
            rows, _ = head_rows(host, layer, module, which)
            rows.copy_(torch.outer(torch.ones(len(rows)), direction))
