"""The tokenizer got eight new tokens, the table did not grow: their ids have no row."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.text import VOCAB_SIZE, CharacterTokenizer

from gnomon.doctor.patient import Patient

ITEM = "embeddings: vocabulary larger than the table"
EXPECTED = {"vocabulary-range", "vocabulary-mismatch"}
HOSTS = on(without={"packed"})


class Grown(CharacterTokenizer):
    def __len__(self) -> int:
        return VOCAB_SIZE + 8


def inject(patient: Patient, host: Host) -> Patient:
    ids = patient.batch[host.source].clone()
    ids[0, 3] = VOCAB_SIZE + 4
    return replace(patient, batch={**patient.batch, host.source: ids}, tokenizer=Grown())
