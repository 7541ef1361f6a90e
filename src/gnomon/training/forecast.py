"""What a training will cost in operations, bytes and time, from a few of its batches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from gnomon.model.flops import Flops, Network, Operations
from gnomon.training.agenda import Agenda
from gnomon.training.config import TrainingConfig
from gnomon.training.cursor import DataCursor
from gnomon.training.distributed import World
from gnomon.training.footprint import Activations, row_length
from gnomon.training.memory.available import available_bytes
from gnomon.training.rehearsal import Rehearsal
from gnomon.training.state import TrainingState
from gnomon.training.task import Task
from gnomon.training.utilisation import matmul_ceiling

_LOOKED_AT = 256  # batches of the first epoch whose lengths are read
_TIMED = 6  # of them that are run
_FIRST_ROWS = 32  # that say how fast it goes
_BUDGETS = (0.5, 1.0, 2.0, 4.0)  # of the recipe's tokens per batch, for which memory is foreseen


@dataclass(frozen=True)
class Parameters:
    """How many numbers the weights hold."""

    total: int
    trainable: int
    embeddings: int  # of them in tables of tokens, positions and segments

    @classmethod
    def of(cls, model: nn.Module) -> Parameters:
        """Of a model, tied ones once."""
        named = list(model.named_parameters())
        return cls(
            sum(p.numel() for _, p in named),
            sum(p.numel() for _, p in named if p.requires_grad),
            sum(p.numel() for name, p in named if "tables." in name or "embedding" in name),
        )


@dataclass(frozen=True)
class States:
    """Bytes that are there from the first step to the last."""

    weights: int
    gradients: int
    optimizer: int
    average: int  # of the weights, where one runs along

    @classmethod
    def of(cls, rehearsal: Rehearsal) -> States:
        """Of a training that has made an update."""
        parameters = list(rehearsal.task.model.parameters())
        average = rehearsal.moving_average is not None
        weights = sum(p.nbytes for p in parameters)
        return cls(
            weights,
            sum(p.nbytes for p in parameters if p.requires_grad),
            sum(t.nbytes for t in rehearsal.optimizer.state_tensors().values()),
            weights if average else 0,
        )

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.gradients + self.optimizer + self.average


@dataclass(frozen=True)
class Kept:
    """What forward passes over texts of one length keep.

    Attributes:
        source_length, target_length: padded tokens of a text; no target of one stack.
        by_budget: of tokens per batch, rows and bytes.
    """

    source_length: int
    target_length: int | None
    by_budget: Mapping[int, tuple[int, int]]

    @classmethod
    def of(cls, activations: Activations, tokens_per_batch: int) -> Kept:
        """For half, once, twice and four times a number of tokens."""
        found = {}
        for factor in _BUDGETS:
            budget = round(factor * tokens_per_batch)
            rows = activations.rows_in(budget)
            found[budget] = rows, activations(rows)
        return cls(*activations.row_lengths, found)


@dataclass(frozen=True)
class Forecast:
    """What a training will cost.

    Attributes:
        parameters, states: of the model.
        real_tokens, padded_tokens: of a step on average, both sides.
        operations: of a step on average, padding counted.
        moved: bytes of a step that are read or written at the least, by what they are.
        kept: what forward passes keep of the shortest, middling and longest texts.
        micro_batch_seconds, update_seconds: of a step's parts, on average.
        accumulate: micro-batches in a step.
        num_steps: until training ends at the latest.
        most_seconds: after which training ends in any case; None: it may take as long as it takes.
        num_timed, timed_share: batches that were run, and how much of them.
        ceiling: the most operations a second, see `matmul_ceiling`.
        precision: of these, and why.
        layers_chosen: which layers are computed again, where a memory budget says so.
    """

    parameters: Parameters
    states: States
    real_tokens: float
    padded_tokens: float
    operations: Operations
    moved: Mapping[str, int]
    kept: Sequence[Kept]
    micro_batch_seconds: float
    update_seconds: float
    accumulate: int
    num_steps: int
    most_seconds: float | None
    num_timed: int
    timed_share: float
    ceiling: float
    precision: str
    layers_chosen: str | None

    @property
    def seconds_per_step(self) -> float:
        """All micro-batches and the update."""
        return self.accumulate * self.micro_batch_seconds + self.update_seconds

    @property
    def seconds(self) -> float:
        """Of all steps, without validations and checkpoints."""
        whole = self.num_steps * self.seconds_per_step
        return whole if self.most_seconds is None else min(whole, self.most_seconds)

    @property
    def utilisation(self) -> float:
        """Operations a second by the ceiling, padding counted."""
        return self.operations.total / self.seconds_per_step / self.ceiling


def foresee(rehearsal: Rehearsal, training: TrainingConfig, *, seconds: float = 5.0) -> Forecast:
    """Look at a training's first epoch, run a few of its batches, say what all will cost.

    Args:
        rehearsal: of the training.
        training: its table.
        seconds: to spend on running batches, about; larger ones are cut to some of their rows.
    """
    task, budget = rehearsal.task, training.tokens_per_batch
    batches = _spread(task.epoch(0)[0], _LOOKED_AT)
    kept = [rehearsal.footprint.of(spec) for spec in _by_length(rehearsal, batches)]
    typical = kept[len(kept) // 2]
    timing = _time(rehearsal, batches, kept[-1], seconds)
    work = sum((timing.operations(spec) for spec in batches), start=Operations({}, {}))
    states = States.of(rehearsal)
    lengths = [task.lengths(spec) for spec in batches]
    a, per_step = training.accumulate, training.accumulate / len(batches)
    return Forecast(
        parameters=Parameters.of(task.model),
        states=states,
        real_tokens=per_step * sum(each.num_tokens for each in lengths),
        padded_tokens=per_step * sum(each.padded().num_tokens for each in lengths),
        operations=work * per_step,
        moved={
            "weights": (2 * a + 2) * states.weights,  # both passes read them, the update both
            "gradients": (2 * a + 1) * states.gradients,  # made, added to, read by norm and update
            "optimizer states": 2 * states.optimizer,
            "activations": 2 * a * typical(typical.rows_in(budget)),
        },
        kept=[Kept.of(each, budget) for each in kept],
        micro_batch_seconds=work.total / len(batches) / timing.rate,
        update_seconds=timing.update_seconds,
        accumulate=a,
        num_steps=_num_steps(rehearsal, training),
        most_seconds=None if training.max_minutes is None else 60 * training.max_minutes,
        num_timed=timing.num_batches,
        timed_share=timing.share,
        ceiling=matmul_ceiling(rehearsal.device, rehearsal.precision.name),
        precision=rehearsal.precision.reason,
        layers_chosen=rehearsal.layers_chosen,
    )


@dataclass(frozen=True)
class _Timing:
    """What running some batches has shown.

    Attributes:
        rate: operations a second.
        update_seconds: of an update.
        labels_per_token: predictions by tokens of both sides.
        num_batches: that were run.
        share: of their rows that were.
    """

    flops: Flops
    task: Task[Any]
    rate: float
    update_seconds: float
    labels_per_token: float
    num_batches: int
    share: float

    def operations(self, spec: Any) -> Operations:
        """Of a batch, with padding."""
        lengths = self.task.lengths(spec)
        return self.flops(lengths.padded(), round(self.labels_per_token * lengths.num_tokens))


def _time(
    rehearsal: Rehearsal, batches: Sequence[Any], longest: Activations, seconds: float
) -> _Timing:
    task = rehearsal.task
    assert isinstance(task.model, Network), "gnomon trains its own networks"
    flops = Flops(task.model, num_passes=rehearsal.objective.num_passes)
    chosen = _spread(batches[1:] or batches, _TIMED)  # the very first is the epoch's largest
    whole = sum(len(spec) for spec in chosen)
    chosen = [_some(spec, _most_rows(rehearsal, longest)) for spec in chosen]
    share = min(1.0, seconds / _estimated_seconds(rehearsal, chosen))
    chosen = [_some(spec, max(1, round(share * len(spec)))) for spec in chosen]
    rehearsal.micro_batch(max(chosen, key=len))  # memory grows to its size
    rehearsal.update()  # the optimizer makes its states
    runs = [(rehearsal.micro_batch(spec), rehearsal.update()) for spec in chosen]
    lengths = [task.lengths(spec) for spec in chosen]
    labels = [num_labels for (_, num_labels), _ in runs]
    operations = sum(
        flops(each.padded(), count).total for each, count in zip(lengths, labels, strict=True)
    )
    return _Timing(
        flops,
        task,
        rate=operations / sum(took for (took, _), _ in runs),
        update_seconds=statistics.median(took for _, took in runs),
        labels_per_token=sum(labels) / sum(each.num_tokens for each in lengths),
        num_batches=len(chosen),
        share=sum(len(spec) for spec in chosen) / whole,
    )


def _estimated_seconds(rehearsal: Rehearsal, batches: Sequence[Any]) -> float:
    """Of running these, from a few rows."""
    few = _some(batches[0], _FIRST_ROWS)
    rehearsal.micro_batch(few)  # what is made once
    took, _ = rehearsal.micro_batch(few)
    tokens = [rehearsal.task.lengths(spec).padded().num_tokens for spec in (few, *batches)]
    return took * sum(tokens[1:]) / tokens[0]


def _most_rows(rehearsal: Rehearsal, longest: Activations) -> int:
    """Rows of the longest texts whose activations fill no more than half of what is free."""
    free = available_bytes(rehearsal.device)
    if free is None:
        return 1 << 30
    rows = 1 << 20
    while rows > 1 and longest(rows) > free / 2:
        rows //= 2
    return rows


def _by_length(rehearsal: Rehearsal, batches: Sequence[Any]) -> list[Any]:
    """The batches of the shortest, middling and longest texts."""
    length = partial(row_length, rehearsal.task)
    ordered = sorted(batches, key=length)
    return _spread(ordered, 3) if length(ordered[0]) < length(ordered[-1]) else ordered[:1]


def _num_steps(rehearsal: Rehearsal, training: TrainingConfig) -> int:
    cursor = DataCursor(rehearsal.task.epoch, max_epochs=training.max_epochs)
    now = time.perf_counter()
    agenda = Agenda(training, TrainingState(), cursor, validates=False, started=now, world=World())
    return agenda.total_steps


def _spread(items: Sequence[Any], count: int) -> list[Any]:
    """Up to so many of the items, from the first to the last."""
    places = np.linspace(0, len(items) - 1, min(count, len(items)))
    return [items[round(place)] for place in places]


def _some(spec: Any, rows: int) -> Any:
    """Up to so many of a batch's rows, which stand by length, from the first to the last."""
    if rows >= len(spec):
        return spec
    return spec[np.linspace(0, len(spec) - 1, rows).round().astype(np.int64)]
