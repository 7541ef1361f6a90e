"""Half of the test pairs stand in the training text as well."""

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
        test = read(patient.corpus[f"test_{side}"])
        write(patient.corpus[side], [*read(patient.corpus[side]), *test[::2]])
    return patient
