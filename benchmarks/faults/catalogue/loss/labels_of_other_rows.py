"""Labels are shuffled apart from their inputs: every step another pairing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, Prediction
from benchmarks.faults.hosts.training import make_step
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "loss: cannot overfit one batch"
EXPECTED = {"overfit-batch"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    def predict(module: nn.Module, batch: Any) -> Prediction:
        made = host.predict(module, batch)
        width = made.targets.shape[1]
        order = torch.rand(made.targets.shape).argsort(1)
        targets = made.targets.gather(1, order)[torch.randperm(len(made.targets))]
        return Prediction(made.logits, targets.view(-1, width), made.real)

    def loss(module: nn.Module, batch: Any) -> Tensor:
        return predict(module, batch).mean_loss()

    step = make_step(predict, patient.module, patient.optimizer, patient.schedule)
    return replace(patient, loss=loss, step=step)
