"""Gaussian noise is added to the token vectors, in evaluation too."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part, put
from torch import Tensor, nn

ITEM = "noise or dropout alive in eval"
EXPECTED = {"noise-in-eval"}
HOSTS = on(
    names={
        "hf-bert-eager",
        "hf-gpt2-sdpa",
        "hf-llama-sdpa",
        "nano",
        "einsum-encoder",
        "torch-mha-decoder",
        "annotated",
        "per-head-decoder",
        "hf-qwen2-sdpa",
    }
)
NOT_ON = "hosts that read the table itself"


class Noisy(nn.Embedding):
    def forward(self, ids: Tensor) -> Tensor:
        x = super().forward(ids)
        return x + 0.01 * torch.randn_like(x)


def alter(module: nn.Module, host: Host) -> None:
    old = part(module, host.anatomy.embedding)
    new = Noisy(*old.weight.shape)
    new.weight = old.weight
    put(module, host.anatomy.embedding, new)
