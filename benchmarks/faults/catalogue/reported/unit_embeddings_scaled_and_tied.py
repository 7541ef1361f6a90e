"""The table is drawn from N(0, 1), multiplied by sqrt(d_model), and is the output as well."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from benchmarks.faults.seams import table
from torch import nn

ITEM = "NMT table 8: embedding scale and initialisation wrong"
THREADS = "attention-is-all-you-need-pytorch #168 #138, espnet #3454, fastai #2090"
EXPECTED = {"initial-loss", "logits-spread", "embedding-scale"}
HOSTS = on("scaled-embedding")
NOT_ON = "hosts whose design has no such factor"


def alter(module: nn.Module, host: Host) -> None:
    weight = table(module, host)
    generator = torch.Generator().manual_seed(0)
    weight.data.copy_(torch.randn(weight.shape, generator=generator))
    if host.anatomy.output and part(module, host.anatomy.output).weight is not weight:
        part(module, host.anatomy.output).weight = weight
