"""Which layers to compute again so that what is kept fits into a budget: as few as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from gnomon.model.stack import Stack
from gnomon.training.footprint import Footprint, largest_batches
from gnomon.training.memory import MemoryConfig, last_layer_kept
from gnomon.training.objective import Objective
from gnomon.training.precision import Precision
from gnomon.training.task import Task


def choose_layers(
    memory: MemoryConfig, task: Task[Any], objective: Objective, precision: Precision
) -> str | None:
    """Tell the stacks of a task's model which layers to compute again, where a budget says so.

    They are the fewest with which no batch of the first epoch keeps more; all of them where that is
    not enough. Those that save most are taken first, of equal ones those nearest to the input: when
    they are made again, most of what was kept is gone.

    Returns:
        What was chosen, in a sentence for a person; None without a budget.
    """
    if memory.recompute != "budget":
        return None
    budget = memory.budget_bytes
    footprint = Footprint(task, objective, precision, memory)
    batches = largest_batches(task)
    order = _by_saving(task.model, footprint, batches)
    least, most = 0, len(order)
    while least < most:  # the fewest that fit lie between these
        middle = (least + most) // 2
        if _kept(task.model, order[:middle], footprint, batches) <= budget:
            most = middle
        else:
            least = middle + 1
    kept = _kept(task.model, order[:least], footprint, batches)
    sentence = (
        f"{least} of {len(order) + 1} layers are computed again in the backward pass: the largest "
        f"batch keeps {_shown(kept)} of activations, memory.budget is {memory.budget}"
    )
    if kept > budget:
        sentence += ", which takes fewer training.tokens_per_batch"
    return sentence


_Layer = tuple[Stack, int]


def _by_saving(model: nn.Module, footprint: Footprint, batches: Sequence[Any]) -> list[_Layer]:
    """All layers that may be computed again; those that save most first."""
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    kept = {
        stack: _kept(model, [(stack, 0)], footprint, batches[:1]) if len(stack.layers) > 1 else 0
        for stack in stacks
    }
    layers = [
        (stack, index)
        for stack in sorted(stacks, key=lambda stack: kept[stack])
        for index in range(len(stack.layers))
    ]
    return [layer for layer in layers if layer != last_layer_kept(stacks)]


def _kept(
    model: nn.Module, layers: Sequence[_Layer], footprint: Footprint, batches: Sequence[Any]
) -> int:
    """Bytes of the worst of the batches with these layers computed again, which stays so."""
    for stack in model.modules():
        if isinstance(stack, Stack):
            stack.recomputed = frozenset(index for one, index in layers if one is stack)
    return max(footprint.of(spec)(len(spec)) for spec in batches)


def _shown(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"
