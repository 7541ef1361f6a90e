"""A rotary model trained on texts of 24 tokens is used on texts of 60."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.text import FIRST, PAD

from gnomon.doctor.patient import Patient

ITEM = "positions: beyond trained length (rotary: degradation by position)"
EXPECTED = {"trained-length"}
HOSTS = on("rope")
NOT_ON = "learned tables, where it is an error (positions/table_shorter_than_texts)"
WEIGHTS = "trained"


def inject(patient: Patient, host: Host) -> Patient:
    batch = {
        key: value[:2].repeat(1, 3)[:, :60] if value.dim() == 2 else value
        for key, value in patient.batch.items()
    }
    batch[host.source] = torch.where(batch[host.source] == PAD, FIRST, batch[host.source])
    if host.mask:
        batch[host.mask] = torch.ones_like(batch[host.mask])
    return replace(patient, batch=batch, max_length=24)
