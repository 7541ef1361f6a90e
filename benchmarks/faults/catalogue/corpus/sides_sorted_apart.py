"""Each side was sorted by itself."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.hosts.bare import BareHost, read, write

from gnomon.doctor.patient import Patient

ITEM = "corpus: misalignment"
EXPECTED = {"misalignment"}
HOSTS = on("corpus")
NOT_ON = "hosts without a corpus"


def inject(patient: Patient, host: BareHost) -> Patient:
    for side in ("source", "target"):
        write(patient.corpus[side], sorted(read(patient.corpus[side])))
    return patient
