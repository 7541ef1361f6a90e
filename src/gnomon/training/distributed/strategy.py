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


def choose_parallel(
    config: DistributedConfig,
    task: Task[Any],
    objective: Objective,
    *,
    memory: MemoryConfig,
    optimizer: OptimizerConfig,
    precision: Precision,
    compiled: bool,
    world: World,
    device: torch.device,
) -> Parallel:
    """Wrap the task's model, which is on `device`, for the ranks there are.

    Args:
        compiled: whether the layers of the task's model will be.

    Raises:
        RecipeError: the recipe asks for what this strategy cannot do.
    """
    if world.size == 1:
        return Parallel(task, objective)
    if precision.name in ("bf16-master", "fp8"):
        raise RecipeError(
            "several ranks train in fp32, bf16 or fp16",
            seen=f'training.precision = "{precision.name}", whose passes go by other weights',
            mend='use "bf16"',
        )
    if config.strategy == "ddp":
        return Replicated(task, objective, world)
    _refuse_with_shards(task, memory, optimizer, compiled)
    from gnomon.training.distributed.sharded import Sharded  # a second to import

    return Sharded(task, objective, world, device)


def _refuse_with_shards(
    task: Task[Any], memory: MemoryConfig, optimizer: OptimizerConfig, compiled: bool
) -> None:
    problems = []
    if compiled:
        problems.append("training.compile")
    if any(getattr(module, "layer_drop", 0.0) for module in task.model.modules()):
        problems.append("model.layer_drop: every rank must run every layer to gather its weights")
    if memory.recompute not in ("none", "full") or memory.activations != "kept":
        problems.append(
            f'[memory] recompute = "{memory.recompute}", activations = "{memory.activations}": it '
            "goes by where whole weights lie"
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
