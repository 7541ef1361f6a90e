"""`zero_grad` is missing: every step adds to the gradients of all before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import CLIP_NORM
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "loss: accumulation"
EXPECTED = {"accumulation", "overfit-batch"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    module, optimizer, schedule = patient.module, patient.optimizer, patient.schedule

    def step(batches: Any) -> None:
        count = sum(int(host.predict(module, batch).real.sum()) for batch in batches)
        for batch in batches:
            made = host.predict(module, batch)
            real = made.real
            loss = F.cross_entropy(made.logits[real], made.targets[real], reduction="sum")
            (loss / count).backward()
        nn.utils.clip_grad_norm_(module.parameters(), CLIP_NORM)
        optimizer.step()
        schedule.step()

    return replace(patient, step=step)
