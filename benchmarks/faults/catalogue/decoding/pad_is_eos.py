"""Padding has the id of the end of a text, and its labels are ignored: no end is ever learned."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.text import EOS, PAD, CharacterTokenizer

from gnomon.doctor.patient import Patient

ITEM = "decoding: pad equal to eos so that it never stops"
EXPECTED = {"pad-is-eos"}
HOSTS = on(
    "causal",
    families={"decoder"},
    names={
        "hf-gpt2-eager",
        "hf-gpt2-sdpa",
        "hf-llama-eager",
        "hf-llama-sdpa",
        "hf-qwen2-sdpa",
        "hf-mistral-eager",
        "nano",
    },
)
NOT_ON = "hosts that make their mask from the padding's id"


class EndPads(CharacterTokenizer):
    pad_token_id = EOS


def inject(patient: Patient, host: Host) -> Patient:
    batch = dict(patient.batch)
    ids = batch[host.source]
    batch[host.source] = torch.where(ids == PAD, EOS, ids)
    if host.name == "nano":
        targets = batch["targets"]
        batch["targets"] = torch.where(targets == EOS, -1, targets)
    else:
        labels = batch["labels"]
        batch["labels"] = torch.where(labels == EOS, -100, labels)
        patient.module.config.pad_token_id = EOS
    return replace(patient, batch=batch, tokenizer=EndPads(), pad_id=EOS)
