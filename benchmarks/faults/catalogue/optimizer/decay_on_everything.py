"""Weight decay of 0.1 on all parameters, norms and biases among them."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import PEAK, make_schedule, make_step

from gnomon.doctor.patient import Patient

ITEM = "optimizer: decay on norms or biases"
EXPECTED = {"decay-on-norms"}
HOSTS = on(without={"packed"})


def inject(patient: Patient, host: Host) -> Patient:
    optimizer = torch.optim.AdamW(
        patient.module.parameters(), lr=PEAK, betas=(0.9, 0.98), weight_decay=0.1
    )
    schedule = make_schedule(optimizer)
    step = make_step(host.predict, patient.module, optimizer, schedule)
    return replace(patient, optimizer=optimizer, schedule=schedule, step=step)
