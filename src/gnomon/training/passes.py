"""The forward and backward pass of a micro-batch, as every step and every replay makes it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnomon.model.unpadded import Unpadding, unpadding
from gnomon.training.distributed.parallel import Forward
from gnomon.training.memory import Keeping
from gnomon.training.objective import LossSums
from gnomon.training.precision import Precision
from gnomon.training.task import Task


@dataclass(frozen=True)
class Passes:
    """What decides the gradient of a batch, the weights aside."""

    task: Task[Any]
    forward: Forward
    precision: Precision
    keeping: Keeping = nullcontext  # what the forward pass leaves for the backward pass
    unpadded: Unpadding = "never"  # whether padding is left out of it

    def __call__(
        self, batch: Any, num_tokens: int, *, count_correct: bool, scale: float = 1.0
    ) -> LossSums:
        """Add the gradient of this micro-batch's part of the mean over all `num_tokens`.

        Args:
            scale: by which the gradient is multiplied, the loss not.
        """
        with self.precision.weights(self.task.model):
            with self.keeping(), self.precision.autocast(), unpadding(self.unpadded):
                sums = self.forward(batch, count_correct)
            (sums.loss / num_tokens * scale).backward()  # type: ignore[no-untyped-call]
        return sums

    def loss(self, batches: Sequence[Any], num_tokens: int) -> Tensor:
        """The loss of several micro-batches, whose gradients are added."""
        sums = [self(batch, num_tokens, count_correct=False) for batch in batches]
        return torch.stack([each.loss.detach() for each in sums]).sum() / num_tokens
