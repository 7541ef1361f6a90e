"""Texts of 96 tokens reach a model whose table has 64 positions: an IndexError without a word."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host

from gnomon.doctor.patient import Patient

ITEM = "part E 11: sequence longer than the table"
THREADS = "transformers #97 #14384, fairseq #757 #257 #349, phenaki #25"
EXPECTED = {"position-range", "trained-length"}
HOSTS = on("learned-positions", without={"packed"})
NOT_ON = "positions without an end"


def inject(patient: Patient, host: Host) -> Patient:
    text = [host.source, *([host.mask] if host.mask else [])]
    batch = {
        key: value.repeat(1, 5)[:, :96] if not host.target or key in text else value
        for key, value in patient.batch.items()
    }
    return replace(patient, batch=batch, max_length=96)
