"""Every parameter was made anew under each of its names, as sharding and materialising do."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Host
from torch import nn

ITEM = "part E 8: tied weights come apart under sharding, meta device, resume"
THREADS = "verl #7834 #7835, torchtune #616, lmms-engine #157, accelerate #1204, lingua #74"
EXPECTED = {"broken-tie"}
HOSTS = on("tied")
NOT_ON = "hosts whose tie is one parameter under one name, or that are untied"


def alter(module: nn.Module, host: Host) -> None:
    for owner in list(module.modules()):
        for name, parameter in list(owner.named_parameters(recurse=False)):
            setattr(owner, name, nn.Parameter(parameter.detach().clone()))
