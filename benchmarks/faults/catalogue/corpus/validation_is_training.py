"""The validation text is the head of the training text."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.hosts.bare import BareHost, read, write

from gnomon.doctor.patient import Patient

ITEM = "corpus: train/test overlap"
EXPECTED = {"split-overlap"}
HOSTS = on("corpus")
NOT_ON = "hosts without a corpus"


def inject(patient: Patient, host: BareHost) -> Patient:
    for side in ("source", "target"):
        write(patient.corpus[f"valid_{side}"], read(patient.corpus[side])[:40])
    return patient
