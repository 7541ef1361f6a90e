"""Parameters are spared decay by the type nn.LayerNorm; the model's norms are of another class."""

from __future__ import annotations

from dataclasses import replace

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.training import PEAK, make_schedule, make_step
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "part E 10: weight decay reaches norms"
THREADS = "transformers #35927, Fast-LLM #545, minGPT #24, TransformerLens #460"
EXPECTED = {"decay-on-norms"}
HOSTS = on(
    names={
        "annotated",
        "gnomon-decoder",
        "hf-llama-eager",
        "hf-llama-sdpa",
        "hf-t5-eager",
        "hf-t5-sdpa",
        "relative-translator",
        "functional-decoder",
        "hf-qwen2-sdpa",
        "hf-mistral-eager",
    }
)
NOT_ON = "hosts whose norms are nn.LayerNorm"


def inject(patient: Patient, host: Host) -> Patient:
    module = patient.module
    spared = {
        id(p) for m in module.modules() if isinstance(m, nn.LayerNorm) for p in m.parameters()
    }
    spared |= {id(p) for name, p in module.named_parameters() if name.endswith("bias")}
    every = list(module.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in every if id(p) not in spared], "weight_decay": 0.1},
            {"params": [p for p in every if id(p) in spared], "weight_decay": 0.0},
        ],
        lr=PEAK,
        betas=(0.9, 0.98),
    )
    schedule = make_schedule(optimizer)
    step = make_step(host.predict, module, optimizer, schedule)
    return replace(patient, optimizer=optimizer, schedule=schedule, step=step)
