"""With a cache, the position is counted from 0 within each call."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import wrap
from torch import Tensor, nn

ITEM = "decoding: cached differs from full"
EXPECTED = {"cache-differs"}
HOSTS = on("causal", "cache", "learned-positions", names={"nano", "hf-gpt2-eager", "hf-gpt2-sdpa"})
NOT_ON = "hosts without a learned table that is looked up by index"
WEIGHTS = "sharp"


def alter(module: nn.Module, host: Host) -> None:
    def restarted(self: Any, positions: Tensor) -> Tensor:
        first = positions.shape[-1] > 1
        return self.inner(positions if first else torch.zeros_like(positions))

    for name in host.anatomy.positions:
        wrap(module, name, restarted)
