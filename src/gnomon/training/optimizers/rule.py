"""What moves some groups of parameters by their gradients, and keeps what it remembers by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gnomon.training.optimizers.groups import ParameterGroup


class Rule(Protocol):
    """One way to update parameters."""

    def step(self, learning_rate: float) -> None:
        """Update all parameters that have a gradient."""
        ...

    def state_tensors(self) -> dict[str, Tensor]:
        """What it remembers as `key/parameter name` → tensor."""
        ...

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state_tensors` gave, bit for bit, from among others' tensors."""
        ...


class TorchRule:
    """An optimizer of torch, or one made like those, as a rule.

    Args:
        optimizer: its groups are `torch_groups(groups)`.
        keys: what its state of a parameter may hold: tensors or whole numbers.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        groups: Sequence[ParameterGroup],
        keys: Sequence[str],
    ) -> None:
        self.optimizer = optimizer
        self.groups = groups
        self._keys = keys

    def step(self, learning_rate: float) -> None:
        """Update all parameters that have a gradient."""
        for options, group in zip(self.optimizer.param_groups, self.groups, strict=True):
            options["lr"] = learning_rate * group.rate
        self.optimizer.step()

    def state_tensors(self) -> dict[str, Tensor]:
        """What it remembers as `key/parameter name` → tensor."""
        return {
            f"{key}/{name}": torch.as_tensor(value)
            for name, parameter in self.named_parameters()
            for key, value in self.optimizer.state.get(parameter, {}).items()
        }

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state_tensors` gave."""
        self.optimizer.state.clear()
        for name, parameter in self.named_parameters():
            state = {
                key: _restored(tensors[f"{key}/{name}"], parameter.device)
                for key in self._keys
                if f"{key}/{name}" in tensors  # a parameter may have had no gradient yet
            }
            if state:
                self.optimizer.state[parameter] = state

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """All that it moves."""
        for group in self.groups:
            yield from group.parameters.items()


def torch_groups(groups: Sequence[ParameterGroup]) -> list[dict[str, Any]]:
    """Groups as torch's optimizers take them."""
    return [
        {"params": list(group.parameters.values()), "weight_decay": group.weight_decay}
        for group in groups
    ]


def _restored(tensor: Tensor, device: torch.device) -> Tensor | int:
    if tensor.dim() == 0 and not tensor.is_floating_point():
        return int(tensor)  # a count that the optimizer keeps as Python's
    return tensor.to(device, copy=True)
