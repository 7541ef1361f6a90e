"""AdamW's fused step without `torch.optim`'s classes.

The first of those that a process makes imports PyTorch's compiler: seconds of every training's
start, for a decorator that only matters under `torch.compile`. The function that does the
arithmetic is the same, so the results are, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from gnomon.training.optimizers.config import OptimizerConfig
from gnomon.training.optimizers.groups import ParameterGroup

_KEYS = ("step", "exp_avg", "exp_avg_sq")


class FusedAdamW:
    """AdamW (Loshchilov & Hutter 2019) over dense gradients, in one pass over memory.

    Attributes:
        state: of each parameter that had a gradient: `step` (fp32 scalar), `exp_avg`, `exp_avg_sq`.
    """

    def __init__(self, groups: Sequence[ParameterGroup], config: OptimizerConfig) -> None:
        self._groups = groups
        self._config = config
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Update all parameters that have a gradient."""
        for group in self._groups:
            moved = [p for p in group.parameters.values() if p.grad is not None]
            states = [self._state_of(parameter) for parameter in moved]
            adamw(
                [*moved],
                [p.grad for p in moved if p.grad is not None],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                fused=True,  # must be asked for on a CPU, where it is 3.6 times faster
                amsgrad=False,
                beta1=self._config.betas[0],
                beta2=self._config.betas[1],
                lr=learning_rate * group.rate,
                weight_decay=group.weight_decay,
                eps=self._config.eps,
                maximize=False,
            )

    def _state_of(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        state = self.state.get(parameter)
        if state is None:
            state = self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
                "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            }
        return state

    def state_tensors(self) -> dict[str, Tensor]:
        """What it remembers as `key/parameter name` → tensor."""
        return {
            f"{key}/{name}": value
            for group in self._groups
            for name, parameter in group.parameters.items()
            for key, value in self.state.get(parameter, {}).items()
        }

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state_tensors` gave."""
        self.state.clear()
        for group in self._groups:
            for name, parameter in group.parameters.items():
                state = {
                    key: tensors[f"{key}/{name}"].to(parameter.device, copy=True)
                    for key in _KEYS
                    if f"{key}/{name}" in tensors  # a parameter may have had no gradient yet
                }
                if state:
                    self.state[parameter] = state
