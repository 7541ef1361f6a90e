"""Prompts are padded on the left and masked, but positions count the padding."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.decoding import beam_search, greedy
from benchmarks.faults.hosts.text import PAD

from gnomon.doctor.patient import Patient

ITEM = "decoding: left-padded differs from single"
EXPECTED = {"left-padded-generation", "batch-differs"}
HOSTS = on(names={"hf-gpt2-eager", "hf-gpt2-sdpa"})
NOT_ON = "rotary and relative hosts, which do not mind; encoder-decoders"
WEIGHTS = "sharp"


def inject(patient: Patient, host: Host) -> Patient:
    decoding = type(host.decoding)(positions=False)
    ids = patient.batch["input_ids"]
    shift = (ids == PAD).sum(1).tolist()
    batch = {
        key: torch.stack([row.roll(by, -1) for row, by in zip(value, shift, strict=True)])
        for key, value in patient.batch.items()
    }
    return replace(
        patient,
        batch=batch,
        padding_side="left",
        generate=lambda m, b, n: greedy(decoding, m, b, n),
        beam_generate=lambda m, b, n, k: beam_search(decoding, m, b, n, k),
    )
