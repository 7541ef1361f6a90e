"""Padded positions are counted: the model is trained to predict padding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.text import PAD
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "loss: padded positions in the loss"
EXPECTED = {"padding-in-loss"}
HOSTS = on("causal", without={"packed"})
NOT_ON = "masked language models, where only hidden places count"


def inject(patient: Patient, host: Host) -> Patient:
    def loss(module: nn.Module, batch: Any) -> Tensor:
        made = host.predict(module, batch)
        targets = made.targets.masked_fill(~made.real, PAD)
        return F.cross_entropy(made.logits.flatten(0, 1), targets.flatten())

    return replace(patient, loss=loss)
