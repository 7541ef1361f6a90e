"""A training's steps without a training: what they cost in time and memory, before any is taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from gnomon.training.allocator import keep_freed_memory
from gnomon.training.averaging import AveragingConfig, MovingAverage
from gnomon.training.config import TrainingConfig
from gnomon.training.distributed import direct_forward
from gnomon.training.footprint import Footprint
from gnomon.training.memory import MemoryConfig, keeping
from gnomon.training.memory_budget import choose_layers
from gnomon.training.objective import Objective, ObjectiveConfig
from gnomon.training.optimizers import Optimizer, OptimizerConfig
from gnomon.training.passes import Passes
from gnomon.training.precision import choose_device, choose_precision
from gnomon.training.task import Task


class Rehearsal:
    """The parts of a training that make its steps; nothing is written, weights do not move.

    Args:
        task: its model has its first weights.
        clock: seconds.
    """

    def __init__(
        self,
        task: Task[Any],
        *,
        training: TrainingConfig,
        objective: ObjectiveConfig,
        optimizer: OptimizerConfig,
        averaging: AveragingConfig,
        memory: MemoryConfig,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.task = task
        self.device = choose_device(training.device)
        self.precision = choose_precision(training.precision, self.device)
        if training.threads is not None:
            torch.set_num_threads(training.threads)
        task.model.to(self.device).train()
        self.objective = Objective(objective, pad_id=task.pad_id, class_weights=task.class_weights)
        self.optimizer = Optimizer(task.model, optimizer)
        self.moving_average: MovingAverage | None = None
        if averaging.kind == "ema":
            self.moving_average = MovingAverage(task.model, averaging.decay)
        self.layers_chosen = choose_layers(memory, task, self.objective, self.precision)
        self.footprint = Footprint(task, self.objective, self.precision, memory)
        self._passes = Passes(
            task,
            direct_forward(task, self.objective),
            self.precision,
            keeping(memory, task.model, self.device),
            training.unpadded,
        )
        self._clock = clock
        if self.device.type == "cpu":
            keep_freed_memory()  # as a training does

    def micro_batch(self, spec: Any) -> tuple[float, int]:
        """Collate, forward and backward pass of a batch: seconds, and its predictions."""
        started = self._clock()
        num_labels = self.run(self.task.collate(spec))
        return self._clock() - started, num_labels

    def run(self, batch: Any) -> int:
        """Forward and backward pass of a batch; its predictions."""
        num_labels = self.objective.num_tokens(self.task.target(batch))
        self._passes(batch.to(self.device), num_labels, count_correct=False)
        self._wait()
        return num_labels

    def update(self) -> float:
        """Seconds of what a step does with the gradients, at learning rate 0."""
        started = self._clock()
        self.optimizer.clip(float(self.optimizer.gradient_norm()))
        self.optimizer.step(0.0)
        if self.moving_average is not None:
            self.moving_average.update(1)
        self._wait()
        return self._clock() - started

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
