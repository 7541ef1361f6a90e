"""Each micro-batch's loss is its own mean; means of batches of different size are averaged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import CLIP_NORM
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "loss: mean-of-means accumulation"
EXPECTED = {"accumulation"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    module, optimizer, schedule = patient.module, patient.optimizer, patient.schedule

    def step(batches: Any) -> None:
        optimizer.zero_grad()
        for batch in batches:
            (host.predict(module, batch).mean_loss() / len(batches)).backward()
        nn.utils.clip_grad_norm_(module.parameters(), CLIP_NORM)
        optimizer.step()
        schedule.step()

    return replace(patient, step=step)
