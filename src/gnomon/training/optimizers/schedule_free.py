"""Schedule-Free AdamW (Defazio et al. 2024, arXiv 2405.15682), of the package `schedulefree`.

Gradients are taken at y, between the iterates z and their mean x; x is what validates and ships.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from gnomon.training.optimizers.groups import ParameterGroup
from gnomon.training.optimizers.rule import TorchRule

_OF_PARAMETER = ("z", "exp_avg_sq")
_OF_GROUP = ("k", "weight_sum", "lr_max")


class ScheduleFree(TorchRule):
    """Keeps the model at y, and puts x there for a while.

    Args:
        optimizer: an `AdamWScheduleFree`.
    """

    def __init__(self, optimizer: Any, groups: Sequence[ParameterGroup]) -> None:
        super().__init__(optimizer, groups, _OF_PARAMETER)
        self._modes = optimizer  # what torch's optimizers do not have: train() and eval()
        self._modes.train()

    @contextmanager
    @torch.no_grad()
    def averaged(self) -> Iterator[None]:
        """Within the block the model is x, afterwards bit for bit what it was."""
        # On the way back from x to y rounding would leave its trace in the training.
        before = {p: p.detach().clone() for _, p in self.named_parameters()}
        self._modes.eval()
        try:
            yield
        finally:
            self._modes.train()
            for parameter, value in before.items():
                parameter.copy_(value)

    def state_tensors(self) -> dict[str, Tensor]:
        """Also y: the model folder of a checkpoint holds x."""
        found = super().state_tensors()
        found |= {f"weights/{name}": p.detach().clone() for name, p in self.named_parameters()}
        for group, options in zip(self.groups, self.optimizer.param_groups, strict=True):
            found |= {f"{key}/group {group.name}": _exact(options[key]) for key in _OF_GROUP}
        return found

    @torch.no_grad()
    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state_tensors` gave."""
        super().load_state_tensors(tensors)
        for name, parameter in self.named_parameters():
            parameter.copy_(tensors[f"weights/{name}"])
        for group, options in zip(self.groups, self.optimizer.param_groups, strict=True):
            options |= {key: tensors[f"{key}/group {group.name}"].item() for key in _OF_GROUP}


def _exact(value: float) -> Tensor:
    """Python's number, whole or not, with all its digits."""
    return torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float64)
