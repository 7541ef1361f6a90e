"""Training text is lower-cased with blanks before punctuation; validation and test text are not."""

from __future__ import annotations

import re

from benchmarks.faults.fault import on
from benchmarks.faults.hosts.bare import BareHost, read, write

from gnomon.doctor.patient import Patient

ITEM = "corpus: train/inference tokenisation mismatch"
EXPECTED = {"tokenisation-mismatch"}
HOSTS = on("corpus")
NOT_ON = "hosts without a corpus"


def inject(patient: Patient, host: BareHost) -> Patient:
    for side in ("source", "target"):
        lines = read(patient.corpus[side])
        write(patient.corpus[side], [re.sub(r"([.!?])", r" \1", line.lower()) for line in lines])
    return patient
