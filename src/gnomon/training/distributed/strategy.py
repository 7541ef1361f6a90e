"""Which way of training on several ranks a recipe asks for, and what does not go with it."""

from __future__ import annotations

from typing import Any

import torch

from gnomon.errors import RecipeError
from gnomon.training.distributed.config import DistributedConfig
from gnomon.training.distributed.parallel import Parallel, Replicated
from gnomon.training.distributed.world import World
from gnomon.training.memory import MemoryConfig
from gnomon.training.objective import Objective
from gnomon.training.optimizers import OptimizerConfig
from gnomon.training.precision import Precision
from gnomon.training.task import Task


def parallel(
    config: DistributedConfig,
    task: Task[Any],
    objective: Objective,
    *,
    memory: MemoryConfig,
    optimizer: OptimizerConfig,
    precision: Precision,
    world: World,
    device: torch.device,
) -> Parallel:
    """Wrap the task's model, which is on `device`, for the ranks there are.

    Raises:
        RecipeError: the recipe asks for what this strategy cannot do.
    """
    if world.size == 1:
        return Parallel(task, objective)
    if precision.name == "bf16-master":
        raise RecipeError(
            "ranks exchange gradients of the weights' own format",
            seen='training.precision = "bf16-master" with several ranks',
            mend='use "bf16"',
        )
    if config.strategy == "ddp":
        return Replicated(task, objective, world)
    _refuse_with_shards(task, memory, optimizer)
    from gnomon.training.distributed.sharded import Sharded  # a second to import

    return Sharded(task, objective, world, device)


def _refuse_with_shards(task: Task[Any], memory: MemoryConfig, optimizer: OptimizerConfig) -> None:
    problems = []
    if any(getattr(module, "layer_drop", 0.0) for module in task.model.modules()):
        problems.append("model.layer_drop: every rank must run every layer to gather its weights")
    if memory.activations != "kept":
        problems.append(
            f'memory.activations = "{memory.activations}": weights that are gathered for a layer '
            "would be taken for activations"
        )
    if optimizer.name != "adamw":
        problems.append(
            f'optimizer.name = "{optimizer.name}": only adamw works on parts of a matrix'
        )
    if optimizer.states != "fp32":
        problems.append(f'optimizer.states = "{optimizer.states}": not tried on parts of a matrix')
    if problems:
        raise RecipeError(
            'distributed.strategy "fsdp" does not go with everything',
            seen="; ".join(problems),
            mend="leave them out, or use strategy ddp",
        )
