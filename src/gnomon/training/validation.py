"""Validations during a training, and which steps they found best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from gnomon.errors import RecipeError
from gnomon.training.config import TrainingConfig
from gnomon.training.generators import generators_untouched
from gnomon.training.state import Best, TrainingState
from gnomon.training.task import Task

# Called with the number of steps done; the model is in eval mode and records no gradients.
Validate = Callable[[int], Mapping[str, float]]


class Validation:
    """Measures a task's model and ranks the steps by `training.best_metric`.

    Args:
        num_ranked: how many of the best steps to remember.
    """

    def __init__(
        self,
        task: Task[Any],
        validate: Validate,
        config: TrainingConfig,
        *,
        num_ranked: int,
        device: torch.device,
    ) -> None:
        self._task = task
        self._validate = validate
        self._config = config
        self._num_ranked = num_ranked
        self._device = device

    def measure(self, step: int) -> dict[str, float]:
        """Metrics of the model as it is; training goes on as if nothing had happened.

        Raises:
            RecipeError: when `training.best_metric` is not among them.
        """
        model, name = self._task.model, self._config.best_metric
        was_training = model.training
        model.eval()
        # Not inference mode: what a module caches here must stay usable in later backward passes.
        with generators_untouched(self._device), torch.no_grad():
            metrics = dict(self._validate(step))
        model.train(was_training)
        if name not in metrics:
            raise RecipeError(
                "training.best_metric must be one that validation measures",
                seen=name,
                mend="one of " + ", ".join(sorted(metrics)),
            )
        return metrics

    def rank(self, state: TrainingState, metrics: Mapping[str, float]) -> bool:
        """Note the step in `state`; whether it is the best so far is returned."""
        name = self._config.best_metric
        entry = Best(name, metrics[name], state.step)
        is_best = self.is_best(state, metrics)
        if is_best:
            state.best = entry
            state.num_validations_without_gain = 0
        else:
            state.num_validations_without_gain += 1
        if not math.isnan(entry.value):
            sign = 1 if self._config.best_mode == "min" else -1
            # Of equals the earlier one stays in front: sorting is stable.
            ranked = sorted([*state.ranked, entry], key=lambda one: sign * one.value)
            state.ranked = ranked[: self._num_ranked]
        state.validated_step = state.step
        return is_best

    def is_best(self, state: TrainingState, metrics: Mapping[str, float]) -> bool:
        """Whether these metrics are better than those of the best step so far."""
        best, value = state.best, metrics[self._config.best_metric]
        if math.isnan(value) or best is None:
            return not math.isnan(value)
        return value < best.value if self._config.best_mode == "min" else value > best.value
