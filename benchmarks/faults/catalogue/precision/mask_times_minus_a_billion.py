"""The mask is added as (1 - keep) * -1e9 in the scores' dtype: minus infinity, and 0 * inf."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, scores
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "precision: mask constants (-1e9)"
EXPECTED = {"mask-constant"}
HOSTS = on(without={"packed"})


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        found = scores(call)
        constant = torch.tensor(-1e9, dtype=torch.float32).to(found.dtype)
        found = found + (1.0 - call.keep.to(found.dtype)) * constant
        return F.dropout(found.softmax(-1), call.dropout) @ call.value

    attention(module, host, change)


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="fp16")
