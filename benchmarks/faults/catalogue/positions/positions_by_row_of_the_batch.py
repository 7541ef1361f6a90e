"""A table made for [T, B, D] is added to [B, T, D]: a row of the batch is a "position"."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import wrap
from torch import Tensor, nn

ITEM = "positions: missing"
EXPECTED = {"positions-missing", "batch-leak"}
HOSTS = on(
    names={
        "annotated",
        "torch-seq2seq",
        "einsum-encoder",
        "torch-mha-decoder",
        "nano",
        "per-head-decoder",
    }
)
NOT_ON = "libraries' own models, which add positions inside"


def alter(module: nn.Module, host: Host) -> None:
    def by_row(self: Any, x: Tensor) -> Tensor:
        if "adds-positions" in host.traits:
            return self.inner(x.transpose(0, 1)).transpose(0, 1)
        rows = 4 if host.name != "torch-mha-decoder" else x.shape[0]
        found = self.inner(torch.arange(rows)).unsqueeze(1)
        length = x.shape[-1]
        return found.expand(-1, length, -1)

    for name in host.anatomy.positions:
        wrap(module, name, by_row)
