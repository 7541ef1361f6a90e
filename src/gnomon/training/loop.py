"""The training loop: steps, validations and checkpoints in an order that survives any crash."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from safetensors import SafetensorError

from gnomon.errors import RecipeError, TrainingStopped
from gnomon.training.allocator import keep_freed_memory
from gnomon.training.averaging import AveragingConfig, MovingAverage
from gnomon.training.config import TrainingConfig
from gnomon.training.cursor import DataCursor
from gnomon.training.differentiate import Differentiate
from gnomon.training.events import (
    CheckpointRecord,
    FailedStep,
    Listener,
    MonitorRecord,
    Monitors,
    Outcome,
    StartRecord,
    StepRecord,
    ValidationRecord,
)
from gnomon.training.failed_step import look_again
from gnomon.training.generators import generator_states
from gnomon.training.guard import first_non_finite_weight, is_disk_full
from gnomon.training.interrupts import Interrupts
from gnomon.training.keeper import Keeper
from gnomon.training.log import MetricsLog
from gnomon.training.memory import MemoryConfig, keeping
from gnomon.training.meter import Meter
from gnomon.training.objective import Objective, ObjectiveConfig
from gnomon.training.optimizer import Optimizer, OptimizerConfig, describe_groups
from gnomon.training.passes import Passes
from gnomon.training.precision import Precision, choose_device, choose_precision
from gnomon.training.run import RunFolder
from gnomon.training.state import TrainingState
from gnomon.training.task import Task
from gnomon.training.validation import Validate, Validation


class Trainer:
    """Trains a task into a run folder, or continues the training found there.

    Args:
        task: what to train; its model has its first weights.
        run: where checkpoints and metrics go; locked while `fit` runs.
        schedule: learning rate of a step, from 1 (`ScheduleConfig.build`).
        averaging: which mean of the weights is shipped.
        memory: what a forward pass keeps for the backward pass.
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
        validate: Validate | None = None,
        listeners: Sequence[Listener] = (),
        monitors: Monitors | None = None,
    ) -> None:
        averaging, memory = averaging or AveragingConfig(), memory or MemoryConfig()
        tables = (training, objective, optimizer, averaging, memory)
        if problems := [problem for table in tables for problem in table.problems()]:
            raise RecipeError("The recipe cannot be trained: " + "; ".join(problems))
        if training.patience is not None and validate is None:
            raise RecipeError("training.patience needs a validation to wait for")
        if averaging.kind == "best" and validate is None:
            raise RecipeError('averaging.kind "best" needs a validation to say which are best')
        self.task = task
        self.run = run
        self.config = training
        self.schedule = schedule
        self.averaging = averaging
        self.listeners: list[Listener] = [MetricsLog(run.metrics_path), *listeners]
        self.monitors = monitors
        self.device = choose_device(training.device)
        precision = choose_precision(training.precision, self.device)
        task.model.to(self.device)
        self.objective = Objective(objective, pad_id=task.pad_id, class_weights=task.class_weights)
        self.optimizer = Optimizer(task.model, optimizer)
        self._differentiate = Differentiate(
            Passes(task, self.objective, precision, keeping(memory, task.model, self.device)),
            self.optimizer,
            self.device,
            self._warn,
        )
        self.moving_average: MovingAverage | None = None
        if averaging.kind == "ema":
            self.moving_average = MovingAverage(task.model, averaging.decay)
        self.keeper = Keeper(
            task,
            self.optimizer,
            run.checkpoints,
            averaging=averaging,
            moving_average=self.moving_average,
            keep_last=training.keep_last,
            device=self.device,
        )
        self.validation: Validation | None = None
        if validate is not None:
            self.validation = Validation(
                task, validate, training, num_ranked=averaging.num_best, device=self.device
            )
        self.state = TrainingState()
        self._meter = Meter(log_every=training.log_every)

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
        with self.run.lock(), ExitStack() as closing:
            for listener in self.listeners:
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
            self._tell(
                lambda listener: listener.on_message(
                    "info", f"this run is finished at step {self.state.step}: nothing to train"
                )
            )
            return self._outcome(self.state.finished)
        self._announce()
        self.task.model.train()
        while True:
            if interrupts.received is not None:
                return self._leave(interrupts.received)
            reason = self._reason_to_finish()
            worth_keeping = False
            if self._validation_is_due(at_end=reason is not None):
                worth_keeping = self._run_validation()
                reason = reason or self._reason_to_finish()
            if reason is not None:
                return self._finish(reason)
            if worth_keeping or self._checkpoint_is_due():
                self._save()
            self._step()

    def _begin(self) -> None:
        """Put model, optimizer, generators and counters where the newest checkpoint left them."""
        self._fit_started = time.perf_counter()
        checkpoint, complaints = self.keeper.restore()
        for complaint in complaints:
            self._warn(complaint)
        if checkpoint is None:
            self.state = TrainingState()
            torch.manual_seed(self.config.seed)
        else:
            self.state = checkpoint.state
            if checkpoint.num_threads != torch.get_num_threads():
                self._warn(
                    f"{checkpoint.path.name} was trained with {checkpoint.num_threads} threads, "
                    f"this process has {torch.get_num_threads()}: results will differ in the "
                    "last bits (training.threads fixes the count)"
                )
        if self.state.precision not in (None, self.precision.name):
            self._differentiate.go_on_in(choose_precision(self.state.precision, self.device))
        self.state.precision = self.precision.name
        self._seconds_before = self.state.seconds
        self._first_step = self.state.step
        self._saved_step = self.state.step
        self._cursor = DataCursor(
            self.task.epoch,
            epoch=self.state.epoch,
            part=self.state.part,
            batch=self.state.batch,
            max_epochs=self.config.max_epochs,
        )

    def _announce(self) -> None:
        self._total_steps = self._estimate_total_steps()
        record = StartRecord(
            step=self.state.step,
            total_steps=self._total_steps,
            precision=self.precision.reason,
            parameter_groups=describe_groups(self.optimizer.groups),
            unit=self.task.unit,
        )
        self._tell(lambda listener: listener.on_start(record))

    def _finish(self, reason: str) -> Outcome:
        if self.averaging.at_end:
            self._average()  # killed before the state says finished, it is made again
        self.state.finished = reason
        self._save()
        return self._end(self._outcome(reason))

    def _leave(self, received: signal.Signals) -> Outcome:
        """Save where we are and go; validation, if due, happens when training continues."""
        if self._saved_step != self.state.step:
            self._save()
        return self._end(self._outcome("interrupted", received.value))

    def _end(self, outcome: Outcome) -> Outcome:
        self._tell(lambda listener: listener.on_end(outcome))
        return outcome

    def _outcome(self, reason: str, signal_number: int | None = None) -> Outcome:
        best = self.state.best
        return Outcome(self.state.step, reason, best.step if best else None, signal_number)

    # -- what is due -------------------------------------------------------------------------

    def _reason_to_finish(self) -> str | None:
        config, state = self.config, self.state
        if config.patience and state.num_validations_without_gain >= config.patience:
            return "early_stopping"
        if state.step >= config.max_steps:
            return "max_steps"
        if self._cursor.exhausted:
            return "max_epochs"
        if config.max_minutes and self._seconds() >= config.max_minutes * 60:
            return "max_minutes"
        return None

    def _validation_is_due(self, *, at_end: bool) -> bool:
        step = self.state.step
        if self.validation is None or step == self.state.validated_step:
            return False
        return at_end or step % self.config.validate_every == 0

    def _checkpoint_is_due(self) -> bool:
        step = self.state.step
        return step != self._saved_step and step % self.config.checkpoint_every == 0

    def _estimate_total_steps(self) -> int:
        total = self.config.max_steps
        if self.config.max_epochs is not None and not self._cursor.exhausted:
            batches = self.config.max_epochs * self._cursor.approximate_batches
            total = min(total, math.ceil(batches / self.config.accumulate))
        return max(total, self.state.step)

    def _seconds(self) -> float:
        """Wall time spent in `fit`, over all continuations."""
        return self._seconds_before + time.perf_counter() - self._fit_started

    # -- one step ----------------------------------------------------------------------------

    def _step(self) -> None:
        started = time.perf_counter()
        step, epoch = self.state.step + 1, self._cursor.epoch
        states = generator_states(self.device)  # so that a failed step can be run again
        batches = [self.task.collate(spec) for spec in self._cursor.take(self.config.accumulate)]
        num_tokens = sum(self.objective.num_tokens(self.task.target(b)) for b in batches)
        batches = [batch.to(self.device) for batch in batches]
        data_seconds = time.perf_counter() - started

        gradients = self._differentiate(
            batches,
            num_tokens,
            self.state.loss_scale,
            states,
            step=step,
            count_correct=step % self.config.log_every == 0,
        )
        self.state.precision = self.precision.name
        if not gradients.are_finite:
            failed = look_again(
                self._differentiate.passes,
                self.optimizer,
                self.device,
                step=step,
                loss=gradients.loss,
                gradient_norm=gradients.norm,
                batches=batches,
                num_tokens=num_tokens,
                generators=states,
            )
            raise self._not_finite(failed)
        if self.monitors is not None:
            self.monitors.on_gradients(step)
        self.optimizer.clip(gradients.norm)
        learning_rate = self.schedule(step)
        self.optimizer.step(learning_rate)
        if self.moving_average is not None:
            self.moving_average.update(step)

        self._advance(num_tokens)
        record = StepRecord(
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
        )
        self._tell(lambda listener: listener.on_step(record))
        if self.monitors is not None:
            self._pass_on(self.monitors.on_step(record))
        log = self._meter.add(record, self.state, self._eta_seconds())
        if log is not None:
            self._tell(lambda listener: listener.on_log(log))

    def _advance(self, num_tokens: int) -> None:
        self.state.step += 1
        cursor = self._cursor
        self.state.epoch, self.state.part, self.state.batch = (
            cursor.epoch,
            cursor.part,
            cursor.batch,
        )
        self.state.num_tokens += num_tokens

    def _eta_seconds(self) -> float:
        """Time left at the pace since it started or went on, validations and checkpoints too.

        The pace before an interruption may be another machine's.
        """
        pace = (time.perf_counter() - self._fit_started) / (self.state.step - self._first_step)
        left = (self._total_steps - self.state.step) * pace
        if self.config.max_minutes is not None:
            left = min(left, self.config.max_minutes * 60 - self._seconds())
        return max(0.0, left)

    # -- validation and checkpoints ------------------------------------------------------------

    def _run_validation(self) -> bool:
        """Validate; whether the step is among those to keep is returned."""
        assert self.validation is not None
        started, state = time.perf_counter(), self.state
        with self.keeper.shipped_weights():
            metrics = self.validation.measure(state.step)
            is_best = self.validation.rank(state, metrics)
            seconds = time.perf_counter() - started
            record = ValidationRecord(state.step, metrics, is_best, seconds)
            self._tell(lambda listener: listener.on_validation(record))
            if self.monitors is not None:
                self._pass_on(self.monitors.on_validation(record))
        return any(best.step == state.step for best in state.ranked)

    def _save(self) -> None:
        started = time.perf_counter()
        self._refuse_damaged_weights()
        self.state.seconds = self._seconds()
        path = self.keeper.save(self.state)
        self._saved_step = self.state.step
        record = CheckpointRecord(self.state.step, path, time.perf_counter() - started)
        self._tell(lambda listener: listener.on_checkpoint(record))

    def _average(self) -> None:
        """Average checkpoints; the last step is one of them, so it must be on the disk."""
        self._save()
        record = self.keeper.average(self.state, self.validation)
        if len(record.members) < self.averaging.count:
            self._warn(
                f"only {len(record.members)} checkpoints to average where averaging.count asks "
                f"for {self.averaging.count}: make training.checkpoint_every or validate_every "
                "smaller"
            )
        self._tell(lambda listener: listener.on_average(record))

    # -- trouble -----------------------------------------------------------------------------

    def _not_finite(self, failed: FailedStep) -> TrainingStopped:
        """Tell the monitors of a failed step, and say what the user can do."""
        note = None if self.monitors is None else self.monitors.on_failed_step(failed)
        self.optimizer.drop_gradients()
        seen = f"step {failed.step}: loss {failed.loss}, gradient norm {failed.gradient_norm}"
        culprit = failed.first or "only the sum over micro-batches overflows"
        return TrainingStopped(
            "Loss and gradients must be finite",
            seen=f"{seen}\n  batch: {failed.lines}\n  first: {culprit}",
            mend=f"the step was not taken; the last good checkpoint is {self._last_good()}. "
            + (
                note
                or "The usual cures are a lower learning rate and a longer warm-up; in the "
                "first steps look at the model and at those lines"
            ),
        )

    def _refuse_damaged_weights(self) -> None:
        """A checkpoint must be worth coming back to."""
        name = first_non_finite_weight(self.task.model)
        if name is not None:
            raise TrainingStopped(
                "Weights must be finite to be saved",
                seen=f"{name} is not after step {self.state.step}",
                mend=f"lower the learning rate and continue from {self._last_good()}",
            )

    def _last_good(self) -> str:
        steps = self.run.checkpoints.steps()
        return str(self.run.checkpoints.path(steps[-1])) if steps else "none yet (step 0)"

    def _warn(self, text: str) -> None:
        self._tell(lambda listener: listener.on_message("warning", text))

    def _pass_on(self, records: Iterable[MonitorRecord]) -> None:
        for record in records:
            self._tell(lambda listener, record=record: listener.on_monitor(record))  # type: ignore[misc]
            if record.warning is not None:
                self._warn(record.warning)

    def _tell(self, event: Callable[[Listener], None]) -> None:
        for listener in self.listeners:
            event(listener)
