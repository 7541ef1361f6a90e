"""A quarter of the source lines are in a script of which the tokenizer knows no character."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.hosts.bare import BareHost, read, write

from gnomon.doctor.patient import Patient

ITEM = "corpus: unknown rate"
EXPECTED = {"unknown-rate"}
HOSTS = on("corpus")
NOT_ON = "hosts without a corpus"


def inject(patient: Patient, host: BareHost) -> Patient:
    letters = dict(zip(range(97, 123), "абвгдежзийклмнопрстуфхцчшщ", strict=True))
    lines = read(patient.corpus["source"])
    lines = [line.translate(letters) if n % 4 == 0 else line for n, line in enumerate(lines)]
    write(patient.corpus["source"], lines)
    return patient
