"""For beam search sources are tiled (a b a b) where hypotheses stand side by side (a a b b)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.decoding import beam_search
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "part E 19: beam search reorders the cache wrongly"
THREADS = "transformers #46612 #46819 #19045 #37574, PaddleNLP #6672"
EXPECTED = {"beam-reorder", "batch-differs"}
HOSTS = on("causal", has={"decoding"}, but={"hf-marian-sdpa", "relative-translator"})
NOT_ON = "encoders; hosts whose best beam is the same by chance"
WEIGHTS = "sharp"


class Tiled:
    """The host's decoding, whose first reordering repeats the whole batch in turn."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.advance = inner.advance

    def start(self, module: nn.Module, batch: Any) -> Any:
        self.repeated = False
        state, logits = self.inner.start(module, batch)
        self.rows = len(logits)
        return state, logits

    def reorder(self, state: Any, rows: Tensor) -> None:
        if not self.repeated:
            rows = torch.arange(self.rows).repeat(len(rows) // self.rows)
        self.repeated = True
        self.inner.reorder(state, rows)


def inject(patient: Patient, host: Host) -> Patient:
    def beams(module: nn.Module, batch: Any, num_tokens: int, num_beams: int) -> Tensor:
        return beam_search(Tiled(host.decoding), module, batch, num_tokens, num_beams)

    return replace(patient, beam_generate=beams)
