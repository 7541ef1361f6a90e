"""Puts a training on the disk and back: checkpoints, which of them stay, and their average."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from gnomon.files import atomic_folder
from gnomon.training.averaging import (
    Average,
    AveragingConfig,
    MovingAverage,
    write_mean,
    write_record,
)
from gnomon.training.checkpoint import Checkpoint, Checkpoints
from gnomon.training.events import AverageRecord
from gnomon.training.generators import generator_states, restore_generator_states
from gnomon.training.optimizers import Optimizer
from gnomon.training.state import TrainingState
from gnomon.training.task import Task
from gnomon.training.validation import Validation


class Keeper:
    """Saves and restores everything that a training is made of.

    Args:
        moving_average: where there is one, its weights are what a checkpoint's model folder
            holds, and the weights that training goes on with lie beside the optimizer's state.
        keep_last: newest checkpoints that stay; averaging may need more.
    """

    def __init__(
        self,
        task: Task[Any],
        optimizer: Optimizer,
        checkpoints: Checkpoints,
        *,
        averaging: AveragingConfig,
        moving_average: MovingAverage | None,
        keep_last: int,
        device: torch.device,
    ) -> None:
        self._task = task
        self._optimizer = optimizer
        self._checkpoints = checkpoints
        self._averaging = averaging
        self._moving_average = moving_average
        self._keep_last = max(keep_last, averaging.num_newest)
        self._device = device

    def restore(self) -> tuple[Checkpoint | None, list[str]]:
        """Put model, optimizer and generators where the newest undamaged checkpoint left them.

        Returns:
            That checkpoint, None where there is none, and a sentence for each damaged one.

        Raises:
            RunError: when there are checkpoints and all are damaged.
        """
        checkpoint, complaints = self._checkpoints.load_newest()
        if checkpoint is not None:
            self._task.load(checkpoint.path)
            self._optimizer.load_state_tensors(checkpoint.tensors)
            if self._moving_average is not None:
                self._moving_average.load_state_tensors(checkpoint.tensors)
            restore_generator_states(checkpoint.tensors, self._device)
            self._prune(checkpoint.state)  # killed between writing and pruning, it is done now
        return checkpoint, complaints

    def save(self, state: TrainingState) -> Path:
        """Write the checkpoint of `state.step`, then remove those that are no longer needed."""
        tensors = {**self._optimizer.state_tensors(), **generator_states(self._device)}
        if self._moving_average is not None:
            tensors |= self._moving_average.state_tensors()
        with self.shipped_weights():
            path = self._checkpoints.save(self._task, state, tensors)
        self._prune(state)
        return path

    def _prune(self, state: TrainingState) -> None:
        ranked = {best.step for best in state.ranked}
        self._checkpoints.prune(keep_last=self._keep_last, keep=ranked)

    def shipped_weights(self) -> AbstractContextManager[None]:
        """Within the block the model is the one to validate and to ship."""
        if self._moving_average is None:
            return self._optimizer.shipped_weights()
        return self._moving_average.in_place()

    def average(self, state: TrainingState, validation: Validation | None) -> AverageRecord:
        """Write `checkpoints/averaged/` from saved ones, the last step's among them, and judge it.

        The model has the last step's weights again afterwards.

        Raises:
            ModelError: when the weights of a checkpoint cannot be read.
        """
        started, path = time.perf_counter(), self._checkpoints.averaged_path
        members = self._members(state)
        folders = [self._checkpoints.path(step) for step in members]
        metrics: dict[str, float] = {}
        is_best = True  # who asks for an average and cannot compare wants the average
        with atomic_folder(path) as temporary:
            write_mean(folders, temporary)
            if validation is not None:
                self._task.load(temporary)
                metrics = validation.measure(state.step)
                is_best = validation.is_best(state, metrics)
                self._task.load(self._checkpoints.path(state.step))
            write_record(Average([f.name for f in folders], metrics, is_best), temporary)
        seconds = time.perf_counter() - started
        return AverageRecord(state.step, members, metrics, is_best, path, seconds)

    def _members(self, state: TrainingState) -> Sequence[int]:
        if self._averaging.kind == "last":
            return self._checkpoints.steps()[-self._averaging.count :]
        # None is ranked where every validation gave NaN.
        return sorted(best.step for best in state.ranked) or [state.step]
