"""The smallest number of fp32 is written into scores of half precision: it does not exist there."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import attention, by_hand
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "part E 1: fp16 mask constant overflows"
THREADS = "apex #1052 #1105, fairseq #3575, lmdeploy #3152, lerobot #710"
EXPECTED = {"mask-constant"}
HOSTS = on(without={"packed"})


def alter(module: nn.Module, host: Host) -> None:
    least = torch.finfo(torch.float32).min
    attention(module, host, lambda call, attend: by_hand(call, hidden=least))


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="fp16")
