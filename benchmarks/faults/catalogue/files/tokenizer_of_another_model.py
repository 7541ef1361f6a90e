"""The tokenizer beside the model has another vocabulary: more ids than the table has rows."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.text import VOCAB_SIZE, CharacterTokenizer

from gnomon.doctor.patient import Patient

ITEM = "files: tokenizer and vocabulary mismatch"
EXPECTED = {"vocabulary-mismatch", "vocabulary-range"}
HOSTS = on(without={"packed"})


class Other(CharacterTokenizer):
    def encode(self, text: str) -> list[int]:
        return [token + 20 for token in super().encode(text)]

    def __len__(self) -> int:
        return VOCAB_SIZE + 20


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, tokenizer=Other())
