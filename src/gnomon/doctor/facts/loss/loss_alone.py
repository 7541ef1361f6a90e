"""A loss function computes the loss and takes no step: else each look would train the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gnomon.errors import DoctorError


class LossSteps(DoctorError):
    """The loss function that was handed over steps an optimizer."""


@contextmanager
def only_computes() -> Iterator[None]:
    """Within it a step of any torch optimizer is refused before it changes anything.

    Raises:
        LossSteps: one was asked for.
    """

    def refuse(optimizer: Optimizer, *_: Any) -> None:
        raise LossSteps(
            "a loss function computes the loss and nothing else",
            seen=f"loss(module, batch) calls {type(optimizer).__name__}.step(); nothing was moved",
            mend="return the loss before backward and step; hand over the whole training step as "
            "step=",
        )

    handle = register_optimizer_step_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()
