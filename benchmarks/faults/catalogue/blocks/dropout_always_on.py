"""Functional dropout is called without the training flag: it acts in evaluation as well."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from benchmarks.faults.seams import wrap
from torch import Tensor, nn

ITEM = "noise or dropout alive in eval"
EXPECTED = {"noise-in-eval"}
HOSTS = on(without={"functions", "packed"})
NOT_ON = "the host without a module for its feed-forward"


def where(host: Host, module: nn.Module) -> str:
    return host.anatomy.layers[0].name


def alter(module: nn.Module, host: Host) -> None:
    def dropped(self: Any, x: Tensor) -> Tensor:
        return F.dropout(self.inner(x), 0.1)

    wrap(module, host.anatomy.layers[0].down, dropped)
