"""The losses of micro-batches are added up and not divided by their number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host

from gnomon.doctor.patient import Patient

ITEM = "loss: accumulation"
EXPECTED = {"accumulation"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    module, optimizer, schedule = patient.module, patient.optimizer, patient.schedule

    def step(batches: Any) -> None:
        optimizer.zero_grad()
        for batch in batches:
            host.predict(module, batch).mean_loss().backward()
        optimizer.step()
        schedule.step()

    return replace(patient, step=step, clip_norm=None)
