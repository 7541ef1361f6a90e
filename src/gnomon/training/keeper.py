"""Puts a training on the disk and back: checkpoints, which of them stay, and their average."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnomon.files import atomic_folder
from gnomon.training.averaging import (
    Average,
    AveragingConfig,
    MovingAverage,
    write_mean,
    write_record,
)
from gnomon.training.checkpoint import SHARDS, Checkpoint, Checkpoints
from gnomon.training.distributed import DistributedConfig, Parallel, World
from gnomon.training.distributed.generators import restore_rank, states_of_all_ranks
from gnomon.training.distributed.shards import ShardWriter, read_shards
from gnomon.training.events import AverageRecord
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
        parallel: how the trained weights are held.
        world: ranks that save and restore together; what is not in shards rank 0 writes.
        seed: of ranks that a checkpoint does not know.
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
        parallel: Parallel,
        world: World,
        distributed: DistributedConfig,
        seed: int,
    ) -> None:
        self._task = task
        self._optimizer = optimizer
        self._checkpoints = checkpoints
        self._averaging = averaging
        self._moving_average = moving_average
        self._keep_last = max(keep_last, averaging.num_newest)
        self._device = device
        self._parallel = parallel
        self._world = world
        self._seed = seed
        self._shards: ShardWriter | None = None
        if distributed.sharded_checkpoints and world.size > 1:
            self._shards = ShardWriter(world.saving, later=distributed.async_checkpoints)
        self._unsettled: tuple[int, Future[None] | None] | None = None

    def restore(self) -> tuple[Checkpoint | None, list[str]]:
        """Put model, optimizer and generators where the newest undamaged checkpoint left them.

        Returns:
            That checkpoint, None where there is none, and a sentence for each damaged one.

        Raises:
            RunError: when there are checkpoints and all are damaged.
        """
        checkpoint, complaints = self._load_newest()
        if checkpoint is not None:
            self._task.load(checkpoint.path)
            self._parallel.take_over()
            tensors = dict(checkpoint.tensors)
            if checkpoint.shards is not None:
                tensors |= read_shards(checkpoint.shards, self._parallel.trained)
            tensors = self._parallel.placed(tensors)
            self._optimizer.load_state_tensors(tensors)
            if self._moving_average is not None:
                self._moving_average.load_state_tensors(tensors)
            step = checkpoint.state.step
            restore_rank(tensors, self._world, self._device, seed=self._seed, step=step)
            if self._world.is_first:
                self._prune(checkpoint.state)  # killed between writing and pruning, it is done now
        return checkpoint, complaints

    def _load_newest(self) -> tuple[Checkpoint | None, list[str]]:
        """Rank 0 looks which is undamaged, and sets aside what is not; the others read that."""
        read: list[Checkpoint | None] = []

        def look() -> tuple[int | None, list[str]]:
            checkpoint, complaints = self._checkpoints.load_newest()
            read.append(checkpoint)
            return None if checkpoint is None else checkpoint.state.step, complaints

        step, complaints = self._world.by_first(look)
        if not read:
            read.append(None if step is None else self._checkpoints.load(step))
        return read[0], complaints

    def save(self, state: TrainingState) -> None:
        """Write the checkpoint of `state.step`, then remove those that are no longer needed.

        With `distributed.async_checkpoints` it may not be there before `settle`, which is called
        before the next one.
        """
        assert self._unsettled is None, "one at a time"
        tensors = self._optimizer.state_tensors()
        if self._moving_average is not None:
            tensors |= self._moving_average.state_tensors()
        generators = states_of_all_ranks(self._world, self._device)
        written = None
        with self.shipped_weights():
            if self._shards is None:
                tensors = {**self._parallel.gathered(tensors), **generators}
                self._world.by_first(partial(self._write, state, tensors))
            else:
                written = self._write_shards(self._shards, state, tensors, generators)
        self._unsettled = state.step, written

    def settle(self, *, wait: bool) -> int | None:
        """See the last `save` through; the step whose checkpoint is there now, if one came.

        Args:
            wait: until it is there; else only look.
        """
        if self._unsettled is None:
            return None
        step, written = self._unsettled
        if written is not None:
            if not (wait or written.done()):
                return None
            written.result()
        self._unsettled = None
        return step

    def _write(self, state: TrainingState, tensors: Mapping[str, Tensor]) -> None:
        self._checkpoints.save(self._task, state, tensors, num_ranks=self._world.size)
        self._prune(state)

    def _write_shards(
        self,
        shards: ShardWriter,
        state: TrainingState,
        tensors: Mapping[str, Tensor],
        generators: Mapping[str, Tensor],
    ) -> Future[None]:
        """Rank 0 writes the model, all ranks together the rest; then rank 0 makes it whole."""
        writing = ExitStack()
        begun = self._checkpoints.begun(self._task, state, generators, num_ranks=self._world.size)
        folder = self._world.by_first(lambda: writing.enter_context(begun))
        ranked = replace(state, ranked=list(state.ranked))  # training may go on meanwhile

        def finish() -> None:
            writing.close()
            if self._world.is_first:
                self._prune(ranked)

        return shards.write(tensors, folder / SHARDS, finish)

    def _prune(self, state: TrainingState) -> None:
        ranked = {best.step for best in state.ranked}
        self._checkpoints.prune(keep_last=self._keep_last, keep=ranked)

    @contextmanager
    def shipped_weights(self) -> Iterator[None]:
        """Within the block, which all ranks enter, the model is the one to validate and to ship."""
        average = self._moving_average
        means = self._optimizer.shipped_weights() if average is None else average.in_place()
        with means, self._parallel.whole():
            yield

    def average(self, state: TrainingState, validation: Validation | None) -> AverageRecord:
        """Write `checkpoints/averaged/` from saved ones, the last step's among them, and judge it.

        The model has the last step's weights again afterwards. Rank 0 alone calls it, when no
        rank trains any more.

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
