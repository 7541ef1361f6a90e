"""The cache is reordered by the number of the beam, without the offset of its sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.decoding import beam_search
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

ITEM = "decoding: beam reorder wrong"
EXPECTED = {"beam-reorder", "batch-differs"}
HOSTS = on("causal", "cache", has={"decoding"})
NOT_ON = "hosts without a cache"
WEIGHTS = "sharp"


class Offsetless:
    """The host's decoding, whose later reorderings all point into the first sentence."""

    def __init__(self, inner: Any, num_beams: int) -> None:
        self.inner, self.num_beams = inner, num_beams
        self.advance = inner.advance

    def start(self, module: nn.Module, batch: Any) -> Any:
        self.repeated = False
        return self.inner.start(module, batch)

    def reorder(self, state: Any, rows: Tensor) -> None:
        self.inner.reorder(state, rows % self.num_beams if self.repeated else rows)
        self.repeated = True


def inject(patient: Patient, host: Host) -> Patient:
    def beams(module: nn.Module, batch: Any, num_tokens: int, num_beams: int) -> Tensor:
        decoding = Offsetless(host.decoding, num_beams)
        return beam_search(decoding, module, batch, num_tokens, num_beams)

    return replace(patient, beam_generate=beams)
