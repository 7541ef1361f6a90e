"""The model is built on the meta device and materialised; ties and buffers are not redone."""

from __future__ import annotations

import copy
from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "ties: broken by meta device"
EXPECTED = {"broken-tie", "reload"}
HOSTS = on(
    names={
        "hf-gpt2-sdpa",
        "hf-bert-sdpa",
        "hf-t5-eager",
        "hf-llama-sdpa",
        "nano",
        "annotated",
        "hf-qwen2-sdpa",
        "hf-distilbert-sdpa",
    }
)
NOT_ON = "hosts without ties and without computed buffers"


def inject(patient: Patient, host: Host) -> Patient:
    module = patient.module
    saved = {key: value.clone() for key, value in module.state_dict().items()}

    def reload() -> nn.Module:
        again = copy.deepcopy(module).to("meta").to_empty(device="cpu")
        for tensor in (*again.parameters(), *again.buffers()):
            tensor.data.zero_()  # memory as it comes: zeros, so that every run is the same
        again.load_state_dict(saved)
        return again

    return replace(patient, reload=reload)
