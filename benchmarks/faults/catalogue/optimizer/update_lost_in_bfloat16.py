"""Parameters in bfloat16 without a master copy: updates are smaller than half their last digit."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import make_optimizer, make_schedule, make_step
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "optimizer: update swallowed by bf16"
EXPECTED = {"bf16-update"}
HOSTS = on(without={"packed"})
WEIGHTS = "trained"


def alter(module: nn.Module, host: Host) -> nn.Module:
    return module.bfloat16()


def inject(patient: Patient, host: Host) -> Patient:
    optimizer = make_optimizer(patient.module, lr=1e-5)
    schedule = make_schedule(optimizer)
    step = make_step(host.predict, patient.module, optimizer, schedule)
    return replace(patient, optimizer=optimizer, schedule=schedule, step=step, precision="bf16")
