"""Labels are shifted when the batch is made, and again inside the loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "loss: label shifted twice"
EXPECTED = {"label-shift"}
HOSTS = on("causal", without={"packed"})
NOT_ON = "encoders, which predict in place"


def inject(patient: Patient, host: Host) -> Patient:
    if host.name.startswith("hf-"):
        labels = patient.batch["labels"]
        shifted = torch.cat((labels[:, 1:], torch.full_like(labels[:, :1], -100)), dim=1)
        return replace(patient, batch={**patient.batch, "labels": shifted})

    def loss(module: nn.Module, batch: Any) -> Tensor:
        made = host.predict(module, batch)
        real = made.real[:, 1:]
        return F.cross_entropy(made.logits[:, :-1][real], made.targets[:, 1:][real])

    return replace(patient, loss=loss)
