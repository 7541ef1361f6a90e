"""A folder was written from inside a data-parallel wrapper: all names begin with `module.`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host

from gnomon.doctor.patient import Patient

ITEM = "files: `module.` prefixes"
EXPECTED = {"key-prefix"}
HOSTS = on(
    "config",
    without={"packed"},
    names={
        "hf-bert-sdpa",
        "hf-gpt2-sdpa",
        "hf-llama-sdpa",
        "hf-t5-eager",
        "hf-marian-sdpa",
        "hf-qwen2-sdpa",
        "hf-distilbert-sdpa",
    },
)
NOT_ON = "hosts that have no folder format of their own"


def inject(patient: Patient, host: Host) -> Patient:
    from safetensors.torch import load_file, save_file

    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    patient.module.save_pretrained(folder)
    path = folder / "model.safetensors"
    save_file({f"module.{k}": v for k, v in load_file(path).items()}, path, {"format": "pt"})
    return replace(patient, folder=folder)
