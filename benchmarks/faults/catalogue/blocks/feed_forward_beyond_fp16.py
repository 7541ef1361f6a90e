"""A feed-forward's output reaches 200,000, past the largest number of fp16."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "FFN: activations out of fp16 range"
EXPECTED = {"fp16-range", "fp16-residual"}
HOSTS = on(without={"functions", "packed"})
NOT_ON = "the host without a module for its feed-forward"


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[0].name


def alter(module: nn.Module, host: Host) -> None:
    seen = []
    down = part(module, host.anatomy.layers[0].down)
    hook = down.register_forward_hook(lambda m, x, y: seen.append(float(y.abs().max())))
    with torch.no_grad():
        host.predict(module, host.make_batch(0))
    hook.remove()
    for parameter in down.parameters():
        parameter.data *= 2e5 / seen[0]


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="fp16")
