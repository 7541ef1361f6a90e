"""With SGD, the losses of micro-batches are added up and not divided by their number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import make_schedule

from gnomon.doctor.patient import Patient

ITEM = "loss: accumulation"
EXPECTED = {"accumulation"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    module = patient.module
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    schedule = make_schedule(optimizer)

    def step(batches: Any) -> None:
        optimizer.zero_grad()
        for batch in batches:
            host.predict(module, batch).mean_loss().backward()
        optimizer.step()
        schedule.step()

    return replace(patient, optimizer=optimizer, schedule=schedule, step=step, clip_norm=None)
