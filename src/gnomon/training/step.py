"""One step of a training: batches, their gradients, the update."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from gnomon.errors import DataError
from gnomon.training.audience import Audience
from gnomon.training.averaging import MovingAverage
from gnomon.training.config import TrainingConfig
from gnomon.training.cursor import DataCursor
from gnomon.training.differentiate import Differentiate
from gnomon.training.distributed import Parallel, World, direct_forward
from gnomon.training.events import FailedStep, StepRecord
from gnomon.training.failed_step import look_again
from gnomon.training.generators import generator_states
from gnomon.training.objective import Objective
from gnomon.training.optimizers import Optimizer
from gnomon.training.state import TrainingState
from gnomon.training.task import Task
from gnomon.training.utilisation import Workload


class NotFinite(Exception):
    """A step that could not be taken; the weights are as they were before it."""

    def __init__(self, failed: FailedStep) -> None:
        self.failed = failed
        super().__init__(f"step {failed.step}")


class TakeStep:
    """Takes steps, each from the next batches of the data.

    Args:
        schedule: learning rate of a step, from 1.
        audience: its monitors look at the gradients.
        world: the ranks that share the step's micro-batches, which are `accumulate` for each.
    """

    def __init__(
        self,
        task: Task[Any],
        config: TrainingConfig,
        *,
        objective: Objective,
        differentiate: Differentiate,
        optimizer: Optimizer,
        schedule: Callable[[int], float],
        moving_average: MovingAverage | None,
        audience: Audience,
        parallel: Parallel,
        world: World,
        device: torch.device,
    ) -> None:
        self._task = task
        self._config = config
        self._objective = objective
        self._differentiate = differentiate
        self._optimizer = optimizer
        self._schedule = schedule
        self._moving_average = moving_average
        self._audience = audience
        self._parallel = parallel
        self._world = world
        self._device = device
        self._workload = Workload.of(task, objective.num_passes)

    def __call__(self, state: TrainingState, cursor: DataCursor) -> StepRecord:
        """Take the step after `state.step`; both arguments then stand behind it.

        Raises:
            NotFinite: loss or gradients are NaN or infinite in every number format.
        """
        started = time.perf_counter()
        step, epoch = state.step + 1, cursor.epoch
        states = generator_states(self._device)  # so that a failed step can be run again
        self._world.at(step, "reading")
        specs = cursor.take(self._config.accumulate * self._world.size)
        if len(specs) < self._world.size and step == 1:
            raise DataError(
                "each rank needs a batch of its own",
                seen=f"{len(specs)} in all the epochs, {self._world.size} ranks",
                mend="start fewer ranks, or make training.tokens_per_batch smaller",
            )
        share, num_own = self._world.share_of(specs)
        batches = [self._task.collate(spec) for spec in share]
        num_tokens = sum(
            self._objective.num_tokens(self._task.target(b)) for b in batches[:num_own]
        )
        batches = [batch.to(self._device) for batch in batches]
        data_seconds = time.perf_counter() - started

        self._world.at(step, "computing")
        num_tokens = int(self._world.sums(num_tokens)[0])
        with self._world.exchanging():
            gradients = self._differentiate(
                batches,
                num_own,
                num_tokens,
                state.loss_scale,
                states,
                step=step,
                count_correct=step % self._config.log_every == 0,
            )
        state.precision = self._differentiate.precision.name
        if not gradients.are_finite:
            with self._parallel.whole():
                failed = look_again(
                    replace(
                        self._differentiate.passes,
                        forward=direct_forward(self._task, self._objective),
                    ),
                    self._optimizer,
                    self._device,
                    step=step,
                    loss=gradients.loss,
                    gradient_norm=gradients.norm,
                    batches=batches[:num_own],
                    num_tokens=num_tokens,
                    generators=states,
                )
            raise NotFinite(failed)
        self._audience.look_at_gradients(step)
        self._optimizer.clip(gradients.norm)
        learning_rate = self._schedule(step)
        self._optimizer.step(learning_rate)
        if self._moving_average is not None:
            self._moving_average.update(step)

        _advance(state, cursor, num_tokens)
        return StepRecord(
            step=step,
            epoch=epoch,
            loss=gradients.loss,
            nll=gradients.nll,
            learning_rate=learning_rate,
            gradient_norm=gradients.norm,
            num_tokens=num_tokens,
            num_correct=None if gradients.num_correct is None else int(gradients.num_correct),
            seconds=time.perf_counter() - started,
            data_seconds=data_seconds,
            work=None if self._workload is None else self._workload(specs, num_tokens),
        )


def _advance(state: TrainingState, cursor: DataCursor, num_tokens: int) -> None:
    state.step += 1
    state.epoch, state.part, state.batch = cursor.epoch, cursor.part, cursor.batch
    state.num_tokens += num_tokens
