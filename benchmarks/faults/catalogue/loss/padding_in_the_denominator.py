"""The sum over real positions is divided by the number of all positions, padding included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "loss: padded positions in the loss"
EXPECTED = {"padding-in-loss"}
HOSTS = on("causal", without={"packed"})
NOT_ON = "masked language models, where only hidden places count"


def inject(patient: Patient, host: Host) -> Patient:
    def loss(module: nn.Module, batch: Any) -> Tensor:
        made = host.predict(module, batch)
        real = made.real
        total = F.cross_entropy(made.logits[real], made.targets[real], reduction="sum")
        return total / real.numel()

    return replace(patient, loss=loss)
