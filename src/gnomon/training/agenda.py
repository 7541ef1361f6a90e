"""What a training does next, from its configuration and from where it stands."""

from __future__ import annotations

import math
import time

from gnomon.training.config import TrainingConfig
from gnomon.training.cursor import DataCursor
from gnomon.training.distributed import World
from gnomon.training.state import TrainingState


class Agenda:
    """What is due between two steps, and how long all of them will take.

    Args:
        state: counters as training begins or goes on; it changes them.
        cursor: where the data ends.
        validates: whether there is a validation.
        started: when this process began, by `time.perf_counter`.
        world: ranks that must be of one mind, whatever their clocks say.

    Attributes:
        saved_step: the step of the newest checkpoint.
    """

    def __init__(
        self,
        config: TrainingConfig,
        state: TrainingState,
        cursor: DataCursor,
        *,
        validates: bool,
        started: float,
        world: World,
    ) -> None:
        self._config = config
        self._state = state
        self._cursor = cursor
        self._validates = validates
        self._started = started
        self._world = world
        self._seconds_before = state.seconds
        self._first_step = state.step
        self.saved_step = state.step
        self.total_steps = self._estimate_total_steps()

    def reason_to_finish(self) -> str | None:
        """Why training is over; None while it is not. All ranks ask together."""
        config, state = self._config, self._state
        if config.patience and state.num_validations_without_gain >= config.patience:
            return "early_stopping"
        if state.step >= config.max_steps:
            return "max_steps"
        if self._cursor.exhausted:
            return "max_epochs"
        if config.max_minutes and self._world.any(self.seconds() >= config.max_minutes * 60):
            return "max_minutes"
        return None

    def validation_is_due(self, *, at_end: bool) -> bool:
        """Whether to validate after this step."""
        step = self._state.step
        if not self._validates or step == self._state.validated_step:
            return False
        return at_end or step % self._config.validate_every == 0

    def checkpoint_is_due(self) -> bool:
        """Whether to save after this step."""
        step = self._state.step
        return step != self.saved_step and step % self._config.checkpoint_every == 0

    def seconds(self) -> float:
        """Wall time spent in `fit`, over all continuations."""
        return self._seconds_before + time.perf_counter() - self._started

    def eta_seconds(self) -> float:
        """Time left at the pace since it started or went on, validations and checkpoints too.

        The pace before an interruption may be another machine's.
        """
        pace = (time.perf_counter() - self._started) / (self._state.step - self._first_step)
        left = (self.total_steps - self._state.step) * pace
        if self._config.max_minutes is not None:
            left = min(left, self._config.max_minutes * 60 - self.seconds())
        return max(0.0, left)

    def _estimate_total_steps(self) -> int:
        total = self._config.max_steps
        if self._config.max_epochs is not None and not self._cursor.exhausted:
            batches = self._config.max_epochs * self._cursor.approximate_batches
            total = min(total, math.ceil(batches / (self._config.accumulate * self._world.size)))
        return max(total, self._state.step)
