"""Four processes each advance the schedule: it runs four times too fast."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host

from gnomon.doctor.patient import Patient

ITEM = "part E 18: the schedule runs num_processes times too fast"
THREADS = "accelerate #2926 #662 #1382, diffusers #3954 #8312, transformers #24088"
EXPECTED = {"schedule-speed"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    own, schedule = patient.step, patient.schedule

    def step(batches: Any) -> Any:
        result = own(batches)
        for _ in range(3):
            schedule.step()
        return result

    return replace(patient, step=step)
