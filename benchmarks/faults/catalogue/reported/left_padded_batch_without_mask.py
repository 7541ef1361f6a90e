"""Prompts are padded on the left and neither mask nor positions are passed to the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.decoding import beam_search, greedy
from benchmarks.faults.hosts.text import PAD

from gnomon.doctor.patient import Patient

ITEM = "part E 7: batched generation differs from single"
THREADS = "transformers #22707 #18478 #48161, unsloth #3699, nnsight #673, alpaca-lora #315"
EXPECTED = {"left-padded-generation", "batch-differs"}
HOSTS = on(
    names={
        "hf-gpt2-eager",
        "hf-gpt2-sdpa",
        "hf-llama-eager",
        "hf-llama-sdpa",
        "hf-qwen2-sdpa",
        "hf-mistral-eager",
        "functional-decoder",
    }
)
NOT_ON = "hosts that make the mask themselves, encoder-decoders"
WEIGHTS = "sharp"


def inject(patient: Patient, host: Host) -> Patient:
    shift = (patient.batch[host.source] == PAD).sum(1).tolist()
    batch = {
        key: torch.stack([row.roll(by, -1) for row, by in zip(value, shift, strict=True)])
        for key, value in patient.batch.items()
    }

    def unmasked(given: Any) -> Any:
        return {**given, host.mask: torch.ones_like(given[host.mask])}

    return replace(
        patient,
        batch=batch,
        padding_side="left",
        generate=lambda m, b, n: greedy(host.decoding, m, unmasked(b), n),
        beam_generate=lambda m, b, n, k: beam_search(host.decoding, m, unmasked(b), n, k),
    )
