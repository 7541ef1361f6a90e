"""A hand-written LayerNorm squares in fp16 with eps 1e-12, and its inputs reach 1,000."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part, put
from benchmarks.faults.seams import width_of
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "precision: norm variance"
EXPECTED = {"fp16-norm", "norm-eps"}
HOSTS = on(
    "layer-norm",
    names={"annotated", "nano", "torch-mha-decoder", "hf-gpt2-eager", "per-head-decoder"},
)
NOT_ON = "post-norm hosts, whose stream is normalised after each sum"


class PlainLayerNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return self.weight * centred / torch.sqrt(variance + 1e-12) + self.bias


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[1].norms[0]


def alter(module: nn.Module, host: Host) -> None:
    for layer in host.anatomy.layers:
        for name in layer.norms:
            put(module, name, PlainLayerNorm(width_of(module, host)))

    def large(self: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return output + 1000.0 * torch.linspace(-1, 1, output.shape[-1]).to(output.dtype)

    part(module, host.anatomy.layers[0].down).register_forward_hook(large)


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="fp16")
