"""Positions are an arange in bfloat16 times a rate in bfloat16, then sine and cosine."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "precision: positions"
EXPECTED = {"bf16-positions", "rope-precision"}
HOSTS = on(
    names={"annotated", "torch-seq2seq", "hf-llama-eager", "gnomon-decoder", "functional-decoder"}
)
NOT_ON = "learned tables, which are looked up by integers"


def alter(module: nn.Module, host: Host) -> None:
    low = torch.bfloat16

    def angles(positions: Tensor, rates: Tensor) -> Tensor:
        return (positions.to(low)[..., None] * rates.to(low)).float()

    if host.rotate is not None:
        host.rotate(module, angles, False)
        return
    for name in host.anatomy.positions:
        for buffer in part(module, name).buffers():
            length, width = buffer.shape[-2:]
            rates = 10000 ** (-torch.arange(0, width, 2) / width)
            angle = angles(torch.arange(length), rates)
            made = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
            buffer.copy_(made.view_as(buffer))


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="bf16")
