"""Gradients are clipped at a norm of a million: never."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import make_step

from gnomon.doctor.patient import Patient

ITEM = "optimizer: clipping that never acts"
EXPECTED = {"clipping"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    step = make_step(
        host.predict, patient.module, patient.optimizer, patient.schedule, clip_norm=1e6
    )
    return replace(patient, step=step, clip_norm=1e6)
