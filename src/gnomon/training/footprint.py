"""What a task's forward passes keep for the backward pass, foreseen from a few rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnomon.model import Projection
from gnomon.training.generators import generators_untouched
from gnomon.training.memory.config import MemoryConfig
from gnomon.training.memory.measure import Line, kept_bytes
from gnomon.training.objective import Objective
from gnomon.training.precision import Precision
from gnomon.training.projected_loss import CHUNK
from gnomon.training.task import Task

_ROWS = 6  # of a batch, beside the longest, whose activations are counted
_TIMES = (1, 2)  # that they are repeated
_ALL = 1 << 62  # logits that no vocabulary reaches: they are kept whole


def row_length(task: Task[Any], spec: Any) -> int:
    """Tokens of each row of a batch, of both sides, padding counted."""
    return task.lengths(spec).padded().num_tokens // len(spec)


def largest_batches(task: Task[Any]) -> tuple[Any, Any]:
    """Batches of the first epoch that may keep most: of most tokens, and of the longest texts."""
    part = task.epoch(0)[0]
    return part[0], max(part, key=partial(row_length, task))  # the first is the largest


class Footprint:
    """Counts what forward passes keep; generators and the model's mode stay what they are.

    Args:
        memory: whose layers to compute again `keeping` has told the model.
    """

    def __init__(
        self, task: Task[Any], objective: Objective, precision: Precision, memory: MemoryConfig
    ) -> None:
        self.task = task
        self._objective = objective
        self._precision = precision
        self._memory = memory

    def of(self, spec: Any) -> Activations:
        """What is kept of batches whose texts are as long as those of `spec`."""
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
            self._objective.config,
            pad_id=self._objective.pad_id,
            class_weights=self._objective.class_weights,
            chunk=chunk,
        )
        device, model = self._precision.device, self.task.model
        batch, was_training = batch.to(device), model.training

        def forward() -> Tensor:
            with self._precision.autocast():
                return objective(self.task.target(batch), partial(self.outputs, batch)).loss

        model.train()
        try:
            with generators_untouched(device), self._precision.weights(model):
                return kept_bytes(self._memory, model, forward)
        finally:
            model.train(was_training)

    def outputs(self, batch: Any, inputs: Tensor, keep: Tensor) -> Tensor | Projection:
        """See `Task.outputs`; of as many copies of the batch as the objective wants."""
        return self.task.outputs(batch.repeated(self._objective.num_passes), inputs, keep)

    @torch.no_grad()
    def num_logits(self, batch: Any) -> int:
        """Elements of the logits that need not be made at once."""
        device, precision = self._precision.device, self._precision
        batch, passes = batch.to(device), self._objective.num_passes
        target = self.task.target(batch)
        keep = (target[:, 1:] != self.task.pad_id).repeat(passes, 1)
        with (
            generators_untouched(device),
            precision.weights(self.task.model),
            precision.autocast(),
        ):
            found = self.outputs(batch, target[:, :-1].repeat(passes, 1), keep)
        if not isinstance(found, Projection):
            return 0
        return found.hidden[..., 0].numel() * len(found.table)


class Activations:
    """Bytes that forward passes keep, of texts as long as those of some rows.

    Counted on these rows and on twice as many: what a row adds is the same however many there are,
    but for the loss, which keeps logits only where they are few.

    Attributes:
        lengths: of the rows, padded.
    """

    def __init__(self, footprint: Footprint, spec: Any) -> None:
        self._footprint = footprint
        self._num_rows = len(spec)
        self._batch = footprint.task.collate(spec)
        self._lines: dict[bool, Line] = {}
        self.lengths = footprint.task.lengths(spec).padded()
        self._logits = footprint.num_logits(self._batch)

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
            counts = [times * self._num_rows for times in _TIMES]
            sizes = [self._footprint.kept(self._batch.repeated(n), chunk=chunk) for n in _TIMES]
            self._lines[in_chunks] = Line.through((counts[0], counts[1]), (sizes[0], sizes[1]))
        return self._lines[in_chunks](rows)

    def batch(self, rows: int) -> Any:
        """A batch of so many such rows, or of a few more."""
        return self._batch.repeated(-(-rows // self._num_rows))
