"""Queries and keys of a trained model have grown so that their products pass 65,504."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, head_rows, own_role, site_name
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "precision: scores"
EXPECTED = {"fp16-scores"}
HOSTS = on(without={"packed", "one-head-modules"})
NOT_ON = "the host with a module per head"
WEIGHTS = "trained"


def where(host: Host, module: nn.Module) -> str:
    return site_name(host, module, own_role(host), 0)


def alter(module: nn.Module, host: Host) -> None:
    sizes: list[float] = []

    def measure(call: Call, attend: Attend) -> Tensor:
        sizes.append(float((call.query @ call.key.transpose(-2, -1)).abs().max()))
        return attend(call)

    twin = copy.deepcopy(module)
    attention(twin, host, measure, own_role(host), layer=0)
    with torch.no_grad():
        host.predict(twin, host.make_batch(0))
    for which in ("query", "key"):
        rows, _ = head_rows(host, host.anatomy.layers[0], module, which)
        # Biases stay as they were, so a margin.
        rows *= (4e5 / max(sizes)) ** 0.5


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="fp16")
