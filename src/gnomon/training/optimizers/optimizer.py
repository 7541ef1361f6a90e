"""The optimizer of a training: gradients, the rules that follow them, and their state."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from gnomon.errors import RecipeError
from gnomon.training.optimizers.config import OptimizerConfig
from gnomon.training.optimizers.groups import group_parameters
from gnomon.training.optimizers.rules import build_rules
from gnomon.training.optimizers.schedule_free import ScheduleFree


class Optimizer:
    """Moves a model's parameters, each group by the rule that is its own.

    Raises:
        RecipeError: eps vanishes in the dtype of the model's parameters, the rule does not suit
            them, or its package is missing.
    """

    def __init__(self, model: nn.Module, config: OptimizerConfig) -> None:
        self.config = config
        self.groups = group_parameters(model, config)
        self._parameters = {n: p for group in self.groups for n, p in group.parameters.items()}
        for dtype in {parameter.dtype for parameter in self._parameters.values()}:
            if problems := config.problems(dtype):
                raise RecipeError("The optimizer cannot work: " + "; ".join(problems))
        self.rules = build_rules(self.groups, config)

    def gradient_norm(self) -> Tensor:
        """Global L2 norm of all gradients, on the device; sparse ones are coalesced first."""
        norm: Tensor = get_total_norm(self._gradient_values())
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # of sharded gradients

    @torch.no_grad()
    def unscale(self, scale: float) -> None:
        """Divide all gradients by the factor that the loss was multiplied with."""
        if scale != 1.0:
            torch._foreach_mul_(self._gradient_values(), 1.0 / scale)

    @torch.no_grad()
    def clip(self, norm: float) -> None:
        """Scale gradients whose global norm is `norm` down to `config.clip_norm`."""
        if self.config.clip_norm and norm > self.config.clip_norm:
            torch._foreach_mul_(self._gradient_values(), self.config.clip_norm / norm)

    def step(self, learning_rate: float) -> None:
        """Update the parameters from their gradients, then drop the gradients."""
        for rule in self.rules:
            rule.step(learning_rate)
        self.drop_gradients()

    def drop_gradients(self) -> None:
        """Forget all gradients (set to None: the next backward pass writes instead of adds)."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def shipped_weights(self) -> AbstractContextManager[None]:
        """Within the block the model is the one to validate and to ship."""
        for rule in self.rules:
            if isinstance(rule, ScheduleFree):
                return rule.averaged()
        return nullcontext()

    def state_tensors(self) -> dict[str, Tensor]:
        """The whole state as `key/parameter name` → tensor, for a file without pickle."""
        return {
            name: tensor for rule in self.rules for name, tensor in rule.state_tensors().items()
        }

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state_tensors` gave, bit for bit."""
        for rule in self.rules:
            rule.load_state_tensors(tensors)

    def _gradient_values(self) -> list[Tensor]:
        values = []
        for parameter in self._parameters.values():
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
                values.append(parameter.grad.values())
            else:
                values.append(parameter.grad)
        return values
