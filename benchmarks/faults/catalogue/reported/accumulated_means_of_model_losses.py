"""The model's own mean loss, divided by the number of micro-batches, is accumulated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import CLIP_NORM
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "part E 15: gradient accumulation differs from a large batch"
THREADS = "transformers #34191 #35438 #37766 #24725 #35203, ms-swift #10084, OpenNMT-py #2209"
EXPECTED = {"accumulation"}
HOSTS = on(
    "config",
    names={
        "hf-bert-eager",
        "hf-gpt2-sdpa",
        "hf-llama-eager",
        "hf-t5-eager",
        "hf-bart-eager",
        "hf-marian-sdpa",
        "hf-qwen2-sdpa",
        "hf-distilbert-sdpa",
    },
)
NOT_ON = "hosts that return no loss"


def inject(patient: Patient, host: Host) -> Patient:
    module, optimizer, schedule = patient.module, patient.optimizer, patient.schedule

    def step(batches: Any) -> None:
        optimizer.zero_grad()
        for batch in batches:
            (module(**batch).loss / len(batches)).backward()
        nn.utils.clip_grad_norm_(module.parameters(), CLIP_NORM)
        optimizer.step()
        schedule.step()

    return replace(patient, step=step)
