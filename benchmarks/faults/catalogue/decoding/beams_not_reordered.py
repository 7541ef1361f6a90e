"""Hypotheses change places in beam search, their cache does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.decoding import beam_search
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "decoding: beam reorder wrong"
EXPECTED = {"beam-reorder"}
HOSTS = on("causal", "cache", has={"decoding"})
NOT_ON = "hosts without a cache"
WEIGHTS = "sharp"


class Unordered:
    """The host's decoding, which repeats rows at the start and never moves them after."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.advance = inner.advance

    def start(self, module: nn.Module, batch: Any) -> Any:
        self.repeated = False
        return self.inner.start(module, batch)

    def reorder(self, state: Any, rows: Tensor) -> None:
        if not self.repeated:
            self.inner.reorder(state, rows)
        self.repeated = True


def inject(patient: Patient, host: Host) -> Patient:
    def beams(module: nn.Module, batch: Any, num_tokens: int, num_beams: int) -> Tensor:
        return beam_search(Unordered(host.decoding), module, batch, num_tokens, num_beams)

    return replace(patient, beam_generate=beams)
