"""The schedule advances with every micro-batch instead of every optimizer step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host

from gnomon.doctor.patient import Patient

ITEM = "optimizer: schedule stepped too often"
EXPECTED = {"schedule-speed"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    own, schedule = patient.step, patient.schedule

    def step(batches: Any) -> Any:
        result = own(batches)
        for _ in range(len(batches) - 1):
            schedule.step()
        return result

    return replace(patient, step=step)
