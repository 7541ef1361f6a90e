"""A few of a task's examples, and a forward pass of them: what looks at a training look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from gnomon.tasks import DocumentTask
from gnomon.training import Task
from gnomon.training.cursor import DataCursor

_NUM_BATCHES, _ROWS_OF_EACH = 8, 2
_PACKED_ROWS = 8


def probing_batch(task: Task[Any]) -> Any:
    """A few examples of each of several batches of the first epoch: short and long ones.

    Of packed rows, all of one length, at most as many as a batch of the training holds.
    """
    if isinstance(task, DocumentTask):
        return task.sample(max(2, min(_PACKED_ROWS, task.rows_per_batch)))
    found = DataCursor(task.epoch, max_epochs=1).take(_NUM_BATCHES)
    spec = [example for batch in found for example in batch[:_ROWS_OF_EACH]]
    return task.collate(np.asarray(spec, np.int64))


def teacher_forced(task: Task[Any], batch: Any) -> Callable[[], Tensor]:
    """A forward pass of this batch."""
    device = next(task.model.parameters()).device

    def run() -> Tensor:
        on_device = batch.to(device)
        target = task.target(on_device)
        keep = target[:, 1:] != task.pad_id
        return task.predict(on_device, target[:, :-1], keep)

    return run
