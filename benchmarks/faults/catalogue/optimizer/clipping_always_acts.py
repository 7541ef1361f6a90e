"""Gradients are clipped at a norm of 0.0005: every step has the same length."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import make_step

from gnomon.doctor.patient import Patient

ITEM = "optimizer: clipping that always acts"
EXPECTED = {"clipping"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    step = make_step(
        host.predict, patient.module, patient.optimizer, patient.schedule, clip_norm=0.0005
    )
    return replace(patient, step=step, clip_norm=0.0005)
