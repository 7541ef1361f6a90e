"""The tied table is listed with the embedding and again with the output."""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import PEAK, make_schedule, make_step

from gnomon.doctor.patient import Patient

ITEM = "optimizer: tied parameter twice"
EXPECTED = {"parameter-twice"}
HOSTS = on("tied")
NOT_ON = "hosts whose tie is one parameter under one name, or that are untied"


def inject(patient: Patient, host: Host) -> Patient:
    every = [p for _, p in patient.module.named_parameters(remove_duplicate=False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the one hint that users get, and overlook
        optimizer = torch.optim.Adam(every, lr=PEAK, betas=(0.9, 0.98))
    schedule = make_schedule(optimizer)
    step = make_step(host.predict, patient.module, optimizer, schedule)
    return replace(patient, optimizer=optimizer, schedule=schedule, step=step)
