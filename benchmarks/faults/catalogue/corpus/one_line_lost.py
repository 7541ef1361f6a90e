"""A line was lost on one side: from there on every pair is shifted by one."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.hosts.bare import BareHost, read, write

from gnomon.doctor.patient import Patient

ITEM = "corpus: misalignment"
EXPECTED = {"misalignment"}
HOSTS = on("corpus")
NOT_ON = "hosts without a corpus"


def inject(patient: Patient, host: BareHost) -> Patient:
    lines = read(patient.corpus["target"])
    write(patient.corpus["target"], [*lines[:120], *lines[121:], lines[120]])
    return patient
