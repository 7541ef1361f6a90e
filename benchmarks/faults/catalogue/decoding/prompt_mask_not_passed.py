"""Prompts of several lengths are padded, and the mask is not passed on: padding is read as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.decoding import beam_search, greedy

from gnomon.doctor.patient import Patient

ITEM = "decoding: batch differs from single"
EXPECTED = {"batch-differs", "left-padded-generation"}
HOSTS = on("causal", "padding", "cache", families={"decoder"}, has={"decoding"})
NOT_ON = "hosts that make the mask themselves or read prompts one by one"
WEIGHTS = "sharp"


def inject(patient: Patient, host: Host) -> Patient:
    def seen(batch: Any) -> Any:
        return {**batch, host.mask: torch.ones_like(batch[host.mask])}

    return replace(
        patient,
        generate=lambda m, b, n: greedy(host.decoding, m, seen(b), n),
        beam_generate=lambda m, b, n, k: beam_search(host.decoding, m, seen(b), n, k),
    )
