"""The smoothing term of the loss is averaged over all positions, padding included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "loss: padded positions in the smoothing"
EXPECTED = {"padding-in-smoothing", "padding-in-loss"}
HOSTS = on("causal", without={"packed"})
NOT_ON = "masked language models, where only hidden places count"


def inject(patient: Patient, host: Host) -> Patient:
    def loss(module: nn.Module, batch: Any) -> Tensor:
        made = host.predict(module, batch)
        smooth = -made.logits.log_softmax(-1).mean()
        return 0.9 * made.mean_loss() + 0.1 * smooth

    return replace(patient, loss=loss)
