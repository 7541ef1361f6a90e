"""Hidden scores are filled with -1e9, which fp16 does not have."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import attention, by_hand
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "precision: mask constants (-1e9)"
EXPECTED = {"mask-constant"}
HOSTS = on(without={"packed"})


def alter(module: nn.Module, host: Host) -> None:
    attention(module, host, lambda call, attend: by_hand(call, hidden=-1e9))


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="fp16")
