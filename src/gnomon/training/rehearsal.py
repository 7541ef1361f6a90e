"""A training's steps without a training: what they cost in time and memory, before any is taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnomon.model import Projection
from gnomon.training.allocator import keep_freed_memory
from gnomon.training.averaging import AveragingConfig, MovingAverage
from gnomon.training.config import TrainingConfig
from gnomon.training.distributed import direct_forward
from gnomon.training.memory import MemoryConfig, keeping
from gnomon.training.memory.footprint import Line, kept_bytes
from gnomon.training.objective import Objective, ObjectiveConfig
from gnomon.training.optimizers import Optimizer, OptimizerConfig
from gnomon.training.passes import Passes
from gnomon.training.precision import choose_device, choose_precision
from gnomon.training.projected_loss import CHUNK
from gnomon.training.task import Task

_ROWS = 6  # of a batch, beside the longest, whose activations are counted
_TIMES = (1, 2)  # that they are repeated
_ALL = 1 << 62  # logits that no vocabulary reaches: they are kept whole


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
        self.memory = memory
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
        self.keeping = keeping(memory, task.model, self.device)
        forward = direct_forward(task, self.objective)
        self._passes = Passes(task, forward, self.precision, self.keeping)
        self._clock = clock
        if self.device.type == "cpu":
            keep_freed_memory()  # as a training does

    # -- time --------------------------------------------------------------------------------

    def micro_batch(self, spec: Any) -> tuple[float, int]:
        """Collate, forward and backward pass of a batch: seconds, and its predictions."""
        started = self._clock()
        batch = self.task.collate(spec)
        num_labels = self.objective.num_tokens(self.task.target(batch))
        self._passes(batch.to(self.device), num_labels, count_correct=False)
        self._wait()
        return self._clock() - started, num_labels

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

    # -- memory ------------------------------------------------------------------------------

    def activations(self, spec: Any) -> Activations:
        """What a forward pass keeps of batches whose texts are as long as those of `spec`."""
        lengths = self.task.lengths(spec)
        chosen = set(np.linspace(0, len(spec) - 1, _ROWS).astype(int).tolist())
        if not lengths.is_packed:
            chosen.add(int(lengths.source.argmax()))
            if lengths.target is not None:
                chosen.add(int(lengths.target.argmax()))
        return Activations(self, spec[np.array(sorted(chosen))])

    def kept(self, batch: Any, *, chunk: int | None = None) -> int:
        """Bytes that a forward pass of a batch keeps; see `kept_bytes`.

        Args:
            chunk: see `Objective`.
        """
        objective = Objective(
            self.objective.config,
            pad_id=self.objective.pad_id,
            class_weights=self.objective.class_weights,
            chunk=chunk,
        )
        batch = batch.to(self.device)

        def forward() -> Tensor:
            with self.precision.autocast():
                return objective(self.task.target(batch), partial(self.outputs, batch)).loss

        with self.precision.weights(self.task.model):
            return kept_bytes(self.memory, self.task.model, forward)

    def outputs(self, batch: Any, inputs: Tensor, keep: Tensor) -> Tensor | Projection:
        """See `Task.outputs`; of as many copies of the batch as the objective wants."""
        return self.task.outputs(batch.repeated(self.objective.num_passes), inputs, keep)


class Activations:
    """Bytes that forward passes keep, of texts as long as those of some rows.

    Counted on these rows and on twice as many: what a row adds is the same however many there are,
    but for the loss, which keeps logits only where they are few.

    Attributes:
        lengths: of the rows, padded.
    """

    def __init__(self, rehearsal: Rehearsal, spec: Any) -> None:
        self._rehearsal = rehearsal
        self._num_rows = len(spec)
        self._batch = rehearsal.task.collate(spec)
        self._lines: dict[bool, Line] = {}
        self.lengths = rehearsal.task.lengths(spec).padded()
        self._logits = self._num_logits()

    @property
    def tokens_per_row(self) -> int:
        """Padded, of both sides."""
        return self.lengths.num_tokens // self._num_rows

    @property
    def row_lengths(self) -> tuple[int, int | None]:
        """Padded tokens of a row's source and, where there are two, target."""
        source, target = self.lengths.source, self.lengths.target
        return int(source.sum()) // self._num_rows, None if target is None else int(target[0])

    def rows_in(self, tokens_per_batch: int) -> int:
        """How many such rows a batch holds."""
        return max(1, tokens_per_batch // self.tokens_per_row)

    def __call__(self, rows: int) -> int:
        """Bytes of so many rows."""
        in_chunks = self._logits * rows / self._num_rows > CHUNK
        if in_chunks not in self._lines:
            chunk = self._logits // 2 if in_chunks else _ALL
            sizes = [self._rehearsal.kept(self._batch.repeated(n), chunk=chunk) for n in _TIMES]
            counts = [n * self._num_rows for n in _TIMES]
            self._lines[in_chunks] = Line.through((counts[0], counts[1]), (sizes[0], sizes[1]))
        return self._lines[in_chunks](rows)

    @torch.no_grad()
    def _num_logits(self) -> int:
        """Elements of the logits that need not be made at once."""
        rehearsal = self._rehearsal
        batch = self._batch.to(rehearsal.device)
        target = rehearsal.task.target(batch)
        with rehearsal.precision.weights(rehearsal.task.model), rehearsal.precision.autocast():
            keep = target[:, 1:] != rehearsal.task.pad_id
            passes = rehearsal.objective.num_passes
            inputs = target[:, :-1].repeat(passes, 1)
            found = rehearsal.outputs(batch, inputs, keep.repeat(passes, 1))
        if not isinstance(found, Projection):
            return 0
        return found.hidden[..., 0].numel() * len(found.table)
