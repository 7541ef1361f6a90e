"""The optimizer was built before the last layer was added."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from benchmarks.faults.hosts.training import PEAK, make_schedule, make_step
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "optimizer: parameter missing"
EXPECTED = {"parameter-missing"}
HOSTS = on(without={"packed"})


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[1].name


def inject(patient: Patient, host: Host) -> Patient:
    module = patient.module
    late = {id(p) for p in part(module, host.anatomy.layers[1].name).parameters()}
    kept = [p for p in module.parameters() if id(p) not in late]
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in kept if p.dim() >= 2], "weight_decay": 0.01},
            {"params": [p for p in kept if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=PEAK,
        betas=(0.9, 0.98),
    )
    schedule = make_schedule(optimizer)
    step = make_step(host.predict, module, optimizer, schedule)
    return replace(patient, optimizer=optimizer, schedule=schedule, step=step)
