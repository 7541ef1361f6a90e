"""The encoder's outputs are averaged over all slots; PyTorch zeroes padding in eval only."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import wrap
from torch import Tensor, nn

ITEM = "part E 5: nn.TransformerEncoder differs between training and evaluation"
THREADS = "pytorch #97111 #86120 #90866"
EXPECTED = {"padding-leak"}
HOSTS = on(names={"torch-seq2seq"})
NOT_ON = "hosts without that fast path"


def alter(module: nn.Module, host: Host) -> None:
    def pooled(self: Any, x: Tensor, **more: Any) -> Tensor:
        memory = self.inner(x, **more)
        if memory.shape[1] < x.shape[1]:
            memory = F.pad(memory, (0, 0, 0, x.shape[1] - memory.shape[1]))
        return memory + memory.mean(1, keepdim=True)

    wrap(module, "transformer.encoder", pooled)
