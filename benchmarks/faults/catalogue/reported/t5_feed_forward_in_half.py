"""T5's feed-forward, trained in bfloat16, has outputs beyond 65,504."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "part E 14: T5/mT5 inf in fp16"
THREADS = "transformers #5651 #9295 #4586 #10956 #11461, t5 #539"
EXPECTED = {"fp16-range", "fp16-residual"}
HOSTS = on(names={"hf-t5-eager", "hf-t5-sdpa", "relative-translator"})
NOT_ON = "other hosts fare the same in blocks/feed_forward_beyond_fp16"


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.encoder_layers[1].name


def alter(module: nn.Module, host: Host) -> None:
    layer = host.anatomy.encoder_layers[1]
    part(module, layer.up).weight.data *= 300.0
    part(module, layer.down).weight.data *= 1000.0


def inject(patient: Patient, host: Host) -> Patient:
    return replace(patient, precision="fp16")
