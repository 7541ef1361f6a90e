"""A hand-written RMSNorm squares in its input's dtype, and its inputs reach 1,000."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part, put
from benchmarks.faults.seams import gain
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "precision: norm variance"
EXPECTED = {"fp16-norm"}
HOSTS = on("rms", without={"packed"})
NOT_ON = "hosts with LayerNorm (precision/layer_norm_variance_in_fp16)"


class PlainRMSNorm(nn.Module):
    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[1].norms[0]


def alter(module: nn.Module, host: Host) -> None:
    for layer in host.anatomy.layers:
        for name in layer.norms:
            put(module, name, PlainRMSNorm(gain(part(module, name))))

    def large(self: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return output + 1000.0 * torch.linspace(-1, 1, output.shape[-1]).to(output.dtype)

    part(module, host.anatomy.layers[0].down).register_forward_hook(large)


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="fp16")
