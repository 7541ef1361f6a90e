"""Twelve post-norm layers are trained at the full learning rate from the first step."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import make_step
from benchmarks.faults.seams import deepened
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "residuals: post-norm depth without warm-up"
EXPECTED = {"post-norm-warmup", "warmup"}
HOSTS = on("post-norm", names={"einsum-encoder", "torch-seq2seq", "hf-bert-eager"})
NOT_ON = "pre-norm hosts; hosts whose depth cannot be changed afterwards"


def alter(module: nn.Module, host: Host) -> nn.Module:
    return deepened(module, host, 12)


def inject(patient: Patient, host: Host) -> Patient:
    schedule = torch.optim.lr_scheduler.LambdaLR(patient.optimizer, lambda step: 1.0)
    step = make_step(host.predict, patient.module, patient.optimizer, schedule)
    return replace(patient, schedule=schedule, step=step)
