"""Empty lines, markup, copies of the source and lines fifty times too long are left in the text."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.hosts.bare import BareHost, read, write

from gnomon.doctor.patient import Patient

ITEM = "corpus: the text room's own cleaning findings"
EXPECTED = {"dirty-corpus"}
HOSTS = on("corpus")
NOT_ON = "hosts without a corpus"


def inject(patient: Patient, host: BareHost) -> Patient:
    source, target = read(patient.corpus["source"]), read(patient.corpus["target"])
    for number in range(0, len(source), 10):
        kind = number // 10 % 5
        if kind == 0:
            target[number] = ""
        elif kind == 1:
            target[number] = "<div class='x'>&nbsp;</div><br/>"
        elif kind == 2:
            target[number] = source[number]
        elif kind == 3:
            source[number] = " ".join([source[number]] * 50)
        else:
            source[number], target[number] = source[1], target[1]
    write(patient.corpus["source"], source)
    write(patient.corpus["target"], target)
    return patient
