"""Each position is asked for the token it has just read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.text import PAD
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "loss: label not shifted at all"
EXPECTED = {"label-shift"}
HOSTS = on("causal", without={"packed"})
NOT_ON = "encoders, which predict in place"


def inject(patient: Patient, host: Host) -> Patient:
    def loss(module: nn.Module, batch: Any) -> Tensor:
        made = host.predict(module, batch)
        ids = batch[host.target or host.source][:, : made.logits.shape[1]]
        real = ids != PAD
        return F.cross_entropy(made.logits[real], ids[real])

    return replace(patient, loss=loss)
