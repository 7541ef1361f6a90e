"""The loss is divided by a million and not scaled back: gradients vanish in fp16."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "precision: loss scale"
EXPECTED = {"loss-scale"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    def loss(module: nn.Module, batch: Any) -> Tensor:
        return host.loss(module, batch) * 1e-6

    return replace(patient, loss=loss, precision="fp16")
