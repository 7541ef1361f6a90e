"""Eight layers pass on a thirtieth of what they get: the lowest have no gradient to speak of."""

from __future__ import annotations

from typing import Any

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, part
from benchmarks.faults.seams import deepened
from torch import Tensor, nn

ITEM = "norms, residuals: gradient norm by depth"
EXPECTED = {"gradient-depth", "residual"}
HOSTS = on(names={"annotated", "torch-mha-decoder", "per-head-decoder"})
NOT_ON = "hosts whose depth cannot be changed afterwards"


def alter(module: nn.Module, host: Host) -> nn.Module:
    deepened(module, host, 8)
    stack = part(module, host.anatomy.layers[0].name.rpartition(".")[0])
    number = len(stack)

    def damp(self: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        # Forward as it was, backward a thirtieth: a hand-written function got its factor wrong.
        return output.detach() + (output - output.detach()) / 30.0

    for layer in list(stack)[: number - 1]:
        layer.register_forward_hook(damp)
    return module
