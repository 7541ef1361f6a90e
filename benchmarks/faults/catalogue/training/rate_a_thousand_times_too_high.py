"""The learning rate is 1 instead of 0.001: an update is larger than the weights."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import make_optimizer, make_schedule, make_step

from gnomon.doctor.patient import Patient

ITEM = "training: gradient and update-to-weight ratio"
EXPECTED = {"gradient-ratio", "overfit-batch"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    optimizer = make_optimizer(patient.module, lr=1.0)
    schedule = make_schedule(optimizer)
    step = make_step(host.predict, patient.module, optimizer, schedule)
    return replace(patient, optimizer=optimizer, schedule=schedule, step=step)
