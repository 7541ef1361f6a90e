"""Weights go through bfloat16 on the way to the disk: what is loaded is not what was trained."""

from __future__ import annotations

import copy
from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "files: saved differs from loaded"
EXPECTED = {"reload"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    module = patient.module
    saved = {
        key: value.bfloat16() if value.is_floating_point() else value.clone()
        for key, value in module.state_dict().items()
    }

    def reload() -> nn.Module:
        again = copy.deepcopy(module)
        again.load_state_dict(saved)
        return again

    return replace(patient, reload=reload)
