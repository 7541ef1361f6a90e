"""BatchNorm in place of LayerNorm: in training, statistics over all rows and times."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host, put
from benchmarks.faults.seams import width_of
from torch import Tensor, nn

ITEM = "masks: future leak; batch rows leaking into each other"
EXPECTED = {"future-leak", "batch-leak", "norm-axis"}
HOSTS = on(without={"functions"})
NOT_ON = "the host whose norms are functions"


class OverBatch(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.flatten(0, 1)).view(x.shape)


def alter(module: nn.Module, host: Host) -> None:
    name = host.anatomy.layers[0].norms[0]
    put(module, name, OverBatch(width_of(module, host)).train(module.training))
