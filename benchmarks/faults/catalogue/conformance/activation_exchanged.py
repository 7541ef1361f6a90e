"""The feed-forward's activation is a ReLU where the configuration names another."""

from __future__ import annotations

import torch
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import nn

ITEM = "conformance"
EXPECTED = {"conformance"}
HOSTS = on("config", without={"relu", "packed"})
NOT_ON = "hosts without a configuration, or whose activation is a ReLU"
WEIGHTS = "trained"


def alter(module: nn.Module, host: Host) -> None:
    for part_of in module.modules():
        for name in ("intermediate_act_fn", "act_fn", "act", "activation_fn", "activation"):
            old = getattr(part_of, name, None)
            if isinstance(old, nn.Module):
                setattr(part_of, name, nn.ReLU())
            elif callable(old):
                setattr(part_of, name, torch.relu)
