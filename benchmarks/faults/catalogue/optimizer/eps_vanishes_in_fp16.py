"""Adam with eps 1e-8 over parameters in fp16: eps rounds to zero."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "optimizer: eps that vanishes in the state's dtype"
EXPECTED = {"adam-eps"}
HOSTS = on(without={"packed"})


def alter(module: nn.Module, host: Host) -> nn.Module:
    return module.half()


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="fp16")
