"""The prompt's cache is kept under the shape of the request: the next one of that shape gets it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.hosts.decoding import beam_search, greedy
from torch import nn

from gnomon.doctor.patient import Patient

ITEM = "decoding: cache leaking between requests"
EXPECTED = {"cache-leak"}
HOSTS = on("causal", has={"decoding"})
NOT_ON = "encoders"
WEIGHTS = "sharp"


class Kept:
    """The host's decoding with a memo of what `start` gave."""

    def __init__(self, inner: Any, key: str) -> None:
        self.inner, self.key = inner, key
        self.memo: dict[Any, Any] = {}
        self.advance, self.reorder = inner.advance, inner.reorder

    def start(self, module: nn.Module, batch: Any) -> Any:
        shape = tuple(batch[self.key].shape)
        if shape not in self.memo:
            self.memo[shape] = copy.deepcopy(self.inner.start(module, batch))
        return copy.deepcopy(self.memo[shape])


def inject(patient: Patient, host: Host) -> Patient:
    kept = Kept(host.decoding, host.source)
    return replace(
        patient,
        generate=lambda m, b, n: greedy(kept, m, b, n),
        beam_generate=lambda m, b, n, k: beam_search(kept, m, b, n, k),
    )
