"""A post-norm model is trained with Adam at the full rate from the first step."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import make_step

from gnomon.doctor.patient import Patient

ITEM = "optimizer: schedule without warm-up where it is needed"
EXPECTED = {"warmup", "post-norm-warmup"}
HOSTS = on("post-norm", without={"packed"})
NOT_ON = "pre-norm hosts, which can do without"


def inject(patient: Patient, host: Host) -> Patient:
    schedule = torch.optim.lr_scheduler.LambdaLR(patient.optimizer, lambda step: 1.0)
    step = make_step(host.predict, patient.module, patient.optimizer, schedule)
    return replace(patient, schedule=schedule, step=step)
