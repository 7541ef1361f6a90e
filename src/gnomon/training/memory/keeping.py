"""From the [memory] table to what happens around a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu

from gnomon.errors import RecipeError
from gnomon.model.stack import Stack
from gnomon.training.memory.activations import Activations
from gnomon.training.memory.config import MemoryConfig

Keeping = Callable[[], AbstractContextManager[object]]
"""A fresh context for one forward pass."""


def keeping(config: MemoryConfig, model: nn.Module, device: torch.device) -> Keeping:
    """What to run each forward pass in; tells the stacks of `model` which layers to recompute.

    Raises:
        RecipeError: activations would move from the CPU to itself.
    """
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    if config.recompute != "budget":  # for which `choose_layers` has told them
        for stack in stacks:
            whole = range(0, len(stack.layers), config.every)
            stack.recomputed = frozenset(whole if config.recompute == "full" else ())
        if stacks:
            stack, last = last_layer_kept(stacks)
            stack.recomputed -= {last}
    if config.activations == "host":
        if device.type == "cpu":
            raise RecipeError(
                "memory.activations host moves them from a GPU to the computer's memory",
                seen="training on the CPU",
                mend='use "int8", or memory.recompute',
            )
        return partial(save_on_cpu, pin_memory=True)
    selective, to_int8 = config.recompute == "selective", config.activations == "int8"
    if selective or to_int8:
        return Activations(model, recompute=selective, to_int8=to_int8).forward
    return nullcontext


def last_layer_kept(stacks: Sequence[Stack]) -> tuple[Stack, int]:
    """The layer that is never computed again.

    The backward pass begins with it, while all of it would still be there.
    """
    return stacks[-1], len(stacks[-1].layers) - 1
