"""AdamW whose moments are kept in 8 bits (Dettmers et al. 2022, arXiv 2110.02861), by torchao."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gnomon.training.optimizers.config import OptimizerConfig
from gnomon.training.optimizers.groups import ParameterGroup
from gnomon.training.optimizers.package import package
from gnomon.training.optimizers.rule import TorchRule, torch_groups

# What a moment in 8 bits consists of; the table that gives the codes their values is a constant.
_PARTS = ("codes", "scale")


class EightBitAdamW(TorchRule):
    """torchao's; of parameters below 4,096 numbers the moments stay in fp32.

    Raises:
        RecipeError: torchao is missing.
    """

    def __init__(self, groups: Sequence[ParameterGroup], config: OptimizerConfig) -> None:
        adamw = package("torchao.optim", extra="torchao").AdamW8bit(
            torch_groups(groups), lr=1.0, betas=config.betas, eps=config.eps
        )
        super().__init__(adamw, groups, ("step", "exp_avg", "exp_avg_sq"))

    def step(self, learning_rate: float) -> None:
        """Update all parameters that have a gradient."""
        for options, group in zip(self.optimizer.param_groups, self.groups, strict=True):
            options["lr"].fill_(learning_rate * group.rate)  # a tensor, so that nothing recompiles
        self.optimizer.step()

    def state_tensors(self) -> dict[str, Tensor]:
        """What it remembers; a moment in 8 bits as its codes and scales."""
        found: dict[str, Tensor] = {}
        for name, value in super().state_tensors().items():
            if not _is_eight_bit(value):
                found[name] = value
                continue
            key, _, parameter = name.partition("/")
            found |= {f"{key}.{part}/{parameter}": getattr(value, part) for part in _PARTS}
        return found

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state_tensors` gave."""
        super().load_state_tensors(tensors)
        empty = package("torchao.optim.subclass_8bit", extra="torchao").OptimState8bit.zeros
        for name, parameter in self.named_parameters():
            for key in ("exp_avg", "exp_avg_sq"):
                if f"{key}.codes/{name}" not in tensors:
                    continue
                saved = {part: tensors[f"{key}.{part}/{name}"] for part in _PARTS}
                moment = empty(
                    parameter.shape,
                    key == "exp_avg",  # the other is never negative
                    saved["codes"].numel() // saved["scale"].numel(),
                    parameter.device,
                    parameter.dtype,
                )
                for part, value in saved.items():
                    getattr(moment, part).copy_(value)
                self.optimizer.state[parameter][key] = moment


def _is_eight_bit(value: Any) -> bool:
    return type(value) is not torch.Tensor and hasattr(value, "codes")
