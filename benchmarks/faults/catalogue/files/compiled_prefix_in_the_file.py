"""The compiled wrapper was saved: names begin with `_orig_mod.`, strict=False loads nothing."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "files: `_orig_mod.` prefixes"
EXPECTED = {"key-prefix", "reload"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    saved = {f"_orig_mod.{k}": v.clone() for k, v in patient.module.state_dict().items()}

    def reload() -> nn.Module:
        fresh = host.make(1)
        fresh.load_state_dict(saved, strict=False)
        return fresh.eval()

    return replace(patient, reload=reload)
