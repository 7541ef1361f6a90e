"""A layer frozen for a first phase of training was never thawed."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "optimizer: frozen by mistake"
EXPECTED = {"parameter-frozen"}
HOSTS = on(without={"packed"})


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[0].name


def inject(patient: Patient, host: Host) -> Patient:
    part(patient.module, host.anatomy.layers[0].name).requires_grad_(False)
    return patient
