"""With a cache, each new token is put one position too far."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import Tensor, nn

ITEM = "decoding: cache off by one"
EXPECTED = {"cache-differs"}
HOSTS = on("causal", "cache", "rope")
NOT_ON = "hosts without rotary positions (decoding/cached_position_of_the_step)"
WEIGHTS = "sharp"


def alter(module: nn.Module, host: Host) -> None:
    def angles(positions: Tensor, rates: Tensor) -> Tensor:
        late = 1 if positions.shape[-1] == 1 else 0
        return (positions + late)[..., None] * rates

    host.rotate(module, angles, False)
