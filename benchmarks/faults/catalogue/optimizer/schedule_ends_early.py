"""The rate has decayed to zero after a quarter of the training: it was planned in other units."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import PLANNED_STEPS, make_step

from gnomon.doctor.patient import Patient

ITEM = "optimizer: schedule stepped too often"
EXPECTED = {"schedule-speed"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    def factor(step: int) -> float:
        return min((step + 1) / 100, max(0.0, 1.0 - step / (PLANNED_STEPS / 4)))

    schedule = torch.optim.lr_scheduler.LambdaLR(patient.optimizer, factor)
    step = make_step(host.predict, patient.module, patient.optimizer, schedule)
    return replace(patient, schedule=schedule, step=step)
