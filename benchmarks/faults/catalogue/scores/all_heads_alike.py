"""Every head was initialised under the same seed: all are the same."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import head_rows
from torch import nn

ITEM = "scores: duplicate or tied heads"
EXPECTED = {"duplicate-heads"}
HOSTS = on(without={"one-head-modules", "packed"})
NOT_ON = "the host with a module per head"


def alter(module: nn.Module, host: Host) -> None:
    for layer in (*host.anatomy.encoder_layers, *host.anatomy.layers):
        for which in ("query", "key"):
            rows, K = head_rows(host, layer, module, which)
            for start in range(K, len(rows), K):
                rows[start : start + K] = rows[:K]
