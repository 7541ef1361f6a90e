"""A mask of the dtype's smallest number is added by the model and again by the layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, scores
from torch import Tensor, nn

ITEM = "precision: mask constants (two finfo.min added)"
EXPECTED = {"mask-constant"}
HOSTS = on("causal", "padding", families={"decoder"}, but={"torch-mha-decoder", "per-head-decoder"})
NOT_ON = "hosts where no row is without anything to see; there the sum does no harm"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        found = scores(call)
        mask = torch.zeros_like(found).masked_fill(~call.keep, torch.finfo(found.dtype).min)
        found = found + (mask + mask)
        return F.dropout(found.softmax(-1), call.dropout) @ call.value

    attention(module, host, change, "decoder")
