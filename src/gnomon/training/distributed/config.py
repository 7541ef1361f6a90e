"""The [distributed] table of a recipe: how several ranks train together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class DistributedConfig:
    """How ranks started by torchrun share the work; without effect on a single process."""

    # ddp: each rank holds the whole model and the gradients are summed; fsdp: weights, gradients
    # and optimizer state are divided among the ranks, and a layer's weights are together only
    # while it computes.
    strategy: Literal["ddp", "fsdp"] = "ddp"
    # What carries tensors between ranks; auto: nccl for GPUs, gloo for CPUs.
    backend: Literal["auto", "gloo", "nccl"] = "auto"
    # Each rank writes its part of the optimizer's state (torch.distributed.checkpoint), instead of
    # rank 0 all of it.
    sharded_checkpoints: bool = False
    # … and does so while training goes on.
    async_checkpoints: bool = False
    # Seconds between the signs of life that each rank writes to the run's heartbeat/; a rank that
    # waits longer for the others says which of them are behind. 0 turns them off.
    heartbeat_seconds: float = 30.0
    # How long a rank waits for the others within a step before training stops, naming them.
    timeout_minutes: float = 30.0

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        found = []
        if not 0 <= self.heartbeat_seconds <= 86_400:
            found.append(
                "distributed.heartbeat_seconds must be from 0 to 86,400, seen "
                f"{self.heartbeat_seconds}; 30 is the default, 0 turns the signs of life off"
            )
        if not 0 < self.timeout_minutes <= 10_080:
            found.append(
                "distributed.timeout_minutes must be above 0 and at most 10,080 (a week), seen "
                f"{self.timeout_minutes}"
            )
        return found

    def unused(self) -> list[str]:
        """Fields that these values leave without effect, one sentence each."""
        if self.async_checkpoints and not self.sharded_checkpoints:
            return [
                "distributed.async_checkpoints has no effect without "
                "distributed.sharded_checkpoints = true"
            ]
        return []
