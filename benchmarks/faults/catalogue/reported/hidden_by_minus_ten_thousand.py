"""Padding is hidden by -10,000, and scores of the text lie lower still."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import attention, by_hand, head_rows
from torch import nn

ITEM = "NMT table 25: pads silently attended"
THREADS = "hyunwoongko/transformer #40, pytorch #24816 #119371, transformers #38690"
EXPECTED = {"mask-constant", "attends-padding", "padding-leak"}
HOSTS = on("padding", families={"encoder", "encoder_decoder"}, without={"relative"})
NOT_ON = "decoders, where the look-ahead mask hides padding on the right"


def alter(module: nn.Module, host: Host) -> None:
    for layer in host.anatomy.encoder_layers or host.anatomy.layers:
        for which in ("query", "key"):
            rows, _ = head_rows(host, layer, module, which)
            rows *= 300.0 / float(rows.std() * rows.shape[1] ** 0.5)
    attention(module, host, lambda call, attend: by_hand(call, hidden=-10000.0), "encoder")
