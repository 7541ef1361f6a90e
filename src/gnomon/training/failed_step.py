"""A step whose loss or gradient is not finite is run again, to say where that began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnomon.training.events import FailedStep
from gnomon.training.generators import generator_states, restore_generator_states
from gnomon.training.guard import find_non_finite
from gnomon.training.optimizers import Optimizer
from gnomon.training.passes import Passes


def look_again(
    passes: Passes,
    optimizer: Optimizer,
    device: torch.device,
    *,
    step: int,
    loss: float,
    gradient_norm: float,
    batches: Sequence[Any],
    num_tokens: int,
    generators: Mapping[str, Tensor],
) -> FailedStep:
    """Run the step's micro-batches again under watch and find the guilty one.

    Args:
        passes: through the task's own model.
        generators: their states before the step, so that dropout draws the same.
    """
    restore_generator_states(generators, device)
    optimizer.drop_gradients()
    guilty, found = batches, None
    for batch in batches:
        before = generator_states(device)
        found = find_non_finite(passes.task.model, partial(passes.loss, [batch], num_tokens))
        if found is not None:
            guilty, generators = [batch], before
            break
    return FailedStep(
        step=step,
        loss=loss,
        gradient_norm=gradient_norm,
        batches=guilty,
        num_tokens=num_tokens,
        generators=generators,
        precision=passes.precision.name,
        first=found,
        lines="; ".join(passes.task.describe(batch) for batch in guilty),
        again=partial(passes.loss, guilty, num_tokens),
    )
