"""The training loop: steps, validations and checkpoints in an order that survives any crash."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from safetensors import SafetensorError

from gnomon.errors import RecipeError, TrainingStopped
from gnomon.training.agenda import Agenda
from gnomon.training.allocator import keep_freed_memory
from gnomon.training.audience import Audience
from gnomon.training.averaging import AveragingConfig, MovingAverage
from gnomon.training.compiled import compile_layers
from gnomon.training.config import TrainingConfig
from gnomon.training.cursor import DataCursor
from gnomon.training.differentiate import Differentiate
from gnomon.training.distributed import DistributedConfig, World, choose_parallel
from gnomon.training.distributed.generators import seed_rank
from gnomon.training.events import (
    CheckpointRecord,
    FailedStep,
    Listener,
    Monitors,
    Outcome,
    StartRecord,
    ValidationRecord,
)
from gnomon.training.guard import first_non_finite_weight, is_disk_full
from gnomon.training.interrupts import Interrupts
from gnomon.training.keeper import Keeper
from gnomon.training.log import MetricsLog
from gnomon.training.memory import MemoryConfig, keeping
from gnomon.training.memory_budget import choose_layers
from gnomon.training.meter import Meter
from gnomon.training.objective import Objective, ObjectiveConfig
from gnomon.training.optimizers import Optimizer, OptimizerConfig, describe_groups
from gnomon.training.passes import Passes
from gnomon.training.precision import Precision, choose_device, choose_precision
from gnomon.training.run import RunFolder
from gnomon.training.state import TrainingState
from gnomon.training.step import NotFinite, TakeStep
from gnomon.training.task import Task
from gnomon.training.utilisation import matmul_ceiling
from gnomon.training.validation import Validate, Validation


class Trainer:
    """Trains a task into a run folder, or continues the training found there.

    Args:
        task: what to train; its model has its first weights.
        run: where checkpoints and metrics go; locked while `fit` runs.
        schedule: learning rate of a step, from 1 (`ScheduleConfig.build`).
        averaging: which mean of the weights is shipped.
        memory: what a forward pass keeps for the backward pass.
        distributed: how the ranks of `world` share the work.
        world: the ranks that call this alike; None for this process alone. Listeners and monitors
            are those of rank 0, which writes the run.
        validate: metrics by name; must hold `training.best_metric`.
        listeners: told of every step, log line, validation and checkpoint.
        monitors: look at the model between the steps; listeners are told what they see.

    Raises:
        RecipeError: when the values cannot work together or with this machine.
    """

    def __init__(
        self,
        task: Task[Any],
        run: RunFolder,
        *,
        training: TrainingConfig,
        objective: ObjectiveConfig,
        optimizer: OptimizerConfig,
        schedule: Callable[[int], float],
        averaging: AveragingConfig | None = None,
        memory: MemoryConfig | None = None,
        distributed: DistributedConfig | None = None,
        world: World | None = None,
        validate: Validate | None = None,
        listeners: Sequence[Listener] = (),
        monitors: Monitors | None = None,
    ) -> None:
        averaging, memory = averaging or AveragingConfig(), memory or MemoryConfig()
        distributed = distributed or DistributedConfig()
        self.world = world = world or World()
        tables = (training, objective, optimizer, averaging, memory, distributed)
        if problems := [problem for table in tables for problem in table.problems()]:
            raise RecipeError("The recipe cannot be trained: " + "; ".join(problems))
        if training.patience is not None and validate is None:
            raise RecipeError("training.patience needs a validation to wait for")
        if averaging.kind == "best" and validate is None:
            raise RecipeError('averaging.kind "best" needs a validation to say which are best')
        self.task = task
        self.run = run
        self.config = training
        self.averaging = averaging
        self.device = world.device(choose_device(training.device))
        # Ranks must not each go by their own timing.
        precision = world.by_first(partial(choose_precision, training.precision, self.device))
        precision = replace(precision, device=self.device)
        task.model.to(self.device)
        self.objective = Objective(objective, pad_id=task.pad_id, class_weights=task.class_weights)
        self._layers_chosen = choose_layers(memory, task, self.objective, precision)
        self._parallel = choose_parallel(
            distributed,
            task,
            self.objective,
            memory=memory,
            optimizer=optimizer,
            precision=precision,
            compiled=training.compile,
            world=world,
            device=self.device,
        )
        # Monitors look at whole weights and their gradients.
        is_whole = self._parallel.trained is task.model
        self.audience = Audience([])
        if world.is_first:
            followers = [MetricsLog(run.metrics_path), *listeners]
            self.audience = Audience(followers, monitors if is_whole else None)
        self.optimizer = Optimizer(self._parallel.trained, optimizer)
        self._differentiate = Differentiate(
            Passes(
                task,
                self._parallel.forward,
                precision,
                keeping(memory, self._parallel.trained, self.device),
                "never" if training.compile else training.unpadded,
            ),
            self.optimizer,
            self.device,
            self.audience.warn,
            parallel=self._parallel,
            world=world,
        )
        if training.compile:
            compile_layers(task.model, memory, self.audience)
        self.moving_average: MovingAverage | None = None
        if averaging.kind == "ema":
            self.moving_average = MovingAverage(self._parallel.trained, averaging.decay)
        self.keeper = Keeper(
            task,
            self.optimizer,
            run.checkpoints,
            averaging=averaging,
            moving_average=self.moving_average,
            keep_last=training.keep_last,
            device=self.device,
            parallel=self._parallel,
            world=world,
            distributed=distributed,
            seed=training.seed,
        )
        self.validation: Validation | None = None
        if validate is not None:
            self.validation = Validation(
                task, validate, training, num_ranked=averaging.num_best, device=self.device
            )
        self.state = TrainingState()
        self._take_step = TakeStep(
            task,
            training,
            objective=self.objective,
            differentiate=self._differentiate,
            optimizer=self.optimizer,
            schedule=schedule,
            moving_average=self.moving_average,
            audience=self.audience,
            parallel=self._parallel,
            world=world,
            device=self.device,
        )
        self._meter = Meter(
            log_every=training.log_every,
            ceiling=lambda: world.size * matmul_ceiling(self.device, self.precision.name),
        )

    @property
    def precision(self) -> Precision:
        """The number format of the next step."""
        return self._differentiate.precision

    # -- the whole ---------------------------------------------------------------------------

    def fit(self) -> Outcome:
        """Train to the end, or until SIGTERM or Ctrl-C; returns at once if already finished.

        Raises:
            TrainingStopped: on NaN or infinity, and when the disk is full.
            RunError: when another process writes the run or no checkpoint can be read.
        """
        with ExitStack() as closing:
            if self.world.is_first:
                closing.enter_context(self.run.lock())
            for listener in self.audience.listeners:
                closing.callback(listener.close)
            interrupts = closing.enter_context(Interrupts())
            try:
                return self._fit(interrupts)
            except (OSError, SafetensorError) as error:
                if not is_disk_full(error):
                    raise
                raise TrainingStopped(
                    "The disk must have room for checkpoints and logs",
                    seen=f"full at step {self.state.step}: {error}",
                    mend="make room and give the same command again; it continues from "
                    + self._last_good(),
                ) from error

    def _fit(self, interrupts: Interrupts) -> Outcome:
        if self.config.threads is not None:
            torch.set_num_threads(self.config.threads)
        if self.device.type == "cpu":
            keep_freed_memory()
        self._begin()
        if self.state.finished:
            self.audience.inform(
                f"this run is finished at step {self.state.step}: nothing to train"
            )
            return self._outcome(self.state.finished)
        self._announce()
        for model in (self.task.model, self._parallel.trained):  # the same, unless it is sharded
            model.train()
        while True:
            received = self.world.agree_on(interrupts.received)
            if received is not None:
                return self._leave(received)
            reason = self._agenda.reason_to_finish()
            worth_keeping = False
            if self._agenda.validation_is_due(at_end=reason is not None):
                worth_keeping = self._run_validation()
                reason = reason or self._agenda.reason_to_finish()
            if reason is not None:
                return self._finish(reason)
            if worth_keeping or self._agenda.checkpoint_is_due():
                self._save()
            self._step()

    def _begin(self) -> None:
        """Put model, optimizer, generators and counters where the newest checkpoint left them."""
        started = time.perf_counter()
        checkpoint, complaints = self.keeper.restore()
        for complaint in complaints:
            self.audience.warn(complaint)
        if checkpoint is None:
            self.state = TrainingState()
            seed_rank(self.config.seed, self.world)
        else:
            self.state = checkpoint.state
            if checkpoint.num_ranks != self.world.size:
                self.audience.warn(
                    f"{checkpoint.path.name} was trained by {checkpoint.num_ranks} ranks, now "
                    f"there are {self.world.size}: a step takes training.accumulate micro-batches "
                    "of each"
                )
            if checkpoint.num_threads != torch.get_num_threads():
                self.audience.warn(
                    f"{checkpoint.path.name} was trained with {checkpoint.num_threads} threads, "
                    f"this process has {torch.get_num_threads()}: results will differ in the "
                    "last bits (training.threads fixes the count)"
                )
        if self.state.precision not in (None, self.precision.name):
            self._differentiate.go_on_in(choose_precision(self.state.precision, self.device))
        self.state.precision = self.precision.name
        self._cursor = DataCursor(
            self.task.epoch,
            epoch=self.state.epoch,
            part=self.state.part,
            batch=self.state.batch,
            max_epochs=self.config.max_epochs,
        )
        self._agenda = Agenda(
            self.config,
            self.state,
            self._cursor,
            validates=self.validation is not None,
            started=started,
            world=self.world,
        )

    def _announce(self) -> None:
        record = StartRecord(
            step=self.state.step,
            total_steps=self._agenda.total_steps,
            precision=self.precision.reason,
            parameter_groups=describe_groups(self.optimizer.groups),
            unit=self.task.unit,
        )
        self.audience.tell(lambda listener: listener.on_start(record))
        if self._layers_chosen is not None:
            self.audience.inform(self._layers_chosen)
        if (ranks := self.world.size) > 1:
            self.audience.inform(
                f"{ranks} ranks train as one: a step takes {self.config.accumulate * ranks} "
                "micro-batches"
            )

    def _finish(self, reason: str) -> Outcome:
        if self.averaging.at_end:
            self._average()  # killed before the state says finished, it is made again
        self.state.finished = reason
        self._save()
        return self._end(self._outcome(reason))

    def _leave(self, received: signal.Signals) -> Outcome:
        """Save where we are and go; validation, if due, happens when training continues."""
        if self._agenda.saved_step != self.state.step:
            self._save()
        return self._end(self._outcome("interrupted", received.value))

    def _end(self, outcome: Outcome) -> Outcome:
        self._settle()
        self.audience.tell(lambda listener: listener.on_end(outcome))
        return outcome

    def _outcome(self, reason: str, signal_number: int | None = None) -> Outcome:
        best = self.state.best
        return Outcome(self.state.step, reason, best.step if best else None, signal_number)

    # -- one step ----------------------------------------------------------------------------

    def _step(self) -> None:
        try:
            record = self._take_step(self.state, self._cursor)
        except NotFinite as error:
            raise self._not_finite(error.failed) from None
        if not self.world.is_first:
            return
        self._settle(wait=False)
        self.audience.look_at_step(record)
        log = self._meter.add(record, self.state, self._agenda.eta_seconds())
        if log is not None:
            self.audience.tell(lambda listener: listener.on_log(log))

    # -- validation and checkpoints ------------------------------------------------------------

    def _run_validation(self) -> bool:
        """Validate; whether the step is among those to keep is returned."""
        assert self.validation is not None
        started, state = time.perf_counter(), self.state
        self.world.at(state.step, "validating")
        with self.keeper.shipped_weights():
            metrics = self.world.by_first(partial(self.validation.measure, state.step))
            is_best = self.validation.rank(state, metrics)
            seconds = time.perf_counter() - started
            record = ValidationRecord(state.step, metrics, is_best, seconds)
            self.audience.look_at_validation(record)
        return any(best.step == state.step for best in state.ranked)

    def _save(self) -> None:
        self._settle()
        self._save_started = time.perf_counter()
        self.world.at(self.state.step, "saving")
        self._refuse_damaged_weights()
        self.state.seconds = self._agenda.seconds()
        self.keeper.save(self.state)
        self._agenda.saved_step = self.state.step
        self._settle(wait=False)

    def _settle(self, *, wait: bool = True) -> None:
        """Tell of a checkpoint once it is on the disk."""
        step = self.keeper.settle(wait=wait)
        if step is not None:
            seconds = time.perf_counter() - self._save_started
            record = CheckpointRecord(step, self.run.checkpoints.path(step), seconds)
            self.audience.tell(lambda listener: listener.on_checkpoint(record))

    def _average(self) -> None:
        """Average checkpoints; the last step is one of them, so it must be on the disk."""
        self._save()
        self._settle()
        with self.keeper.shipped_weights():
            record = self.world.by_first(partial(self.keeper.average, self.state, self.validation))
        if len(record.members) < self.averaging.count:
            self.audience.warn(
                f"only {len(record.members)} checkpoints to average where averaging.count asks "
                f"for {self.averaging.count}: make training.checkpoint_every or validate_every "
                "smaller"
            )
        self.audience.tell(lambda listener: listener.on_average(record))

    # -- trouble -----------------------------------------------------------------------------

    def _not_finite(self, failed: FailedStep) -> TrainingStopped:
        """Tell the monitors of a failed step, and say what the user can do."""
        note = self.audience.look_at_failure(failed)
        self.optimizer.drop_gradients()
        seen = f"step {failed.step}: loss {failed.loss}, gradient norm {failed.gradient_norm}"
        first = None if failed.first is None else str(failed.first)
        everywhere = self.world.gather((failed.lines, first))
        guilty = next((one for one in everywhere if one[1] is not None), everywhere[0])
        culprit = guilty[1] or "only the sum over micro-batches overflows"
        return TrainingStopped(
            "Loss and gradients must be finite",
            seen=f"{seen}\n  batch: {guilty[0]}\n  first: {culprit}",
            mend=f"the step was not taken; the last good checkpoint is {self._last_good()}. "
            + (
                note
                or "The usual cures are a lower learning rate and a longer warm-up; in the "
                "first steps look at the model and at those lines"
            ),
        )

    def _refuse_damaged_weights(self) -> None:
        """A checkpoint must be worth coming back to."""
        names = self.world.gather(first_non_finite_weight(self._parallel.trained))
        name = next(filter(None, names), None)
        if name is not None:
            raise TrainingStopped(
                "Weights must be finite to be saved",
                seen=f"{name} is not after step {self.state.step}",
                mend=f"lower the learning rate and continue from {self._last_good()}",
            )

    def _last_good(self) -> str:
        steps = self.run.checkpoints.steps()
        return str(self.run.checkpoints.path(steps[-1])) if steps else "none yet (step 0)"
