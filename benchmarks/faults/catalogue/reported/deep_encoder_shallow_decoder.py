"""Twelve post-norm encoder layers over two decoder layers, at the full rate from the first step."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import make_step
from benchmarks.faults.seams import deepened
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "part E 29: post-LN diverges without warm-up"
THREADS = "pytorch #55270, Transformer-Clinic #16 #9"
EXPECTED = {"post-norm-warmup", "warmup"}
HOSTS = on(names={"torch-seq2seq"})
NOT_ON = "hosts whose depth is told by a configuration too"


def alter(module: nn.Module, host: Host) -> nn.Module:
    only_encoder = replace(host, anatomy=replace(host.anatomy, layers=()))
    return deepened(module, only_encoder, 12)


def inject(patient: Patient, host: Host) -> Patient:
    schedule = torch.optim.lr_scheduler.LambdaLR(patient.optimizer, lambda step: 1.0)
    step = make_step(host.predict, patient.module, patient.optimizer, schedule)
    return replace(patient, schedule=schedule, step=step)
