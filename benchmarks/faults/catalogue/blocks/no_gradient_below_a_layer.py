"""The first layer's output is detached: what lies below is never trained."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from torch import nn

ITEM = "norms, residuals: gradient norm by depth"
EXPECTED = {"gradient-depth", "parameter-frozen"}
HOSTS = on(without={"functions", "packed"})
NOT_ON = "the host whose layers share one module with their functions"


def alter(module: nn.Module, host: Host) -> None:
    def detach(self: nn.Module, inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (output[0].detach(), *output[1:])
        return output.detach()

    part(module, host.anatomy.layers[0].name).register_forward_hook(detach)
