"""One layer's entries have other names in the file, and strict=False says nothing."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "files: saved differs from loaded"
EXPECTED = {"reload"}
HOSTS = on(without={"packed"})


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[1].name


def inject(patient: Patient, host: Host) -> Patient:
    module, prefix = patient.module, host.anatomy.layers[1].name
    saved = {
        key.replace(prefix, "renamed"): value.clone() for key, value in module.state_dict().items()
    }

    def reload() -> nn.Module:
        fresh = host.make(1)
        fresh.load_state_dict(saved, strict=False)
        return fresh.eval()

    return replace(patient, reload=reload)
