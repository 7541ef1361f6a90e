"""Attention's output projection has a bias of 100,000 on one coordinate: a massive activation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "precision: residual stream"
EXPECTED = {"fp16-residual", "fp16-range"}
HOSTS = on(without={"post-norm", "packed"})
NOT_ON = "post-norm hosts, whose stream is normalised after each sum"


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[0].name


def alter(module: nn.Module, host: Host) -> None:
    layer = host.anatomy.layers[0]
    name = layer.down or layer.name

    def massive(self: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        spike = torch.zeros_like(output)
        spike[..., 3] = 1e5
        return output + spike

    part(module, name).register_forward_hook(massive)


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="fp16")
