"""Weights are loaded with assign=True: two entries of the file become two tables."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import nn

ITEM = "ties: broken by load (assign=True)"
EXPECTED = {"broken-tie"}
HOSTS = on("tied")
NOT_ON = "hosts whose tie is one parameter under one name, or that are untied"


def alter(module: nn.Module, host: Host) -> nn.Module:
    state = {key: value.clone() for key, value in module.state_dict().items()}
    module.load_state_dict(state, assign=True)
    return module
