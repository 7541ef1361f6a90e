"""Turns steps into log lines: averages, speed, share of waiting."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gnomon.training.events import LogRecord, StepRecord
from gnomon.training.state import IntervalSums, TrainingState
from gnomon.training.utilisation import Work


class Meter:
    """Averages over the steps since the last log line.

    What belongs to the training (sums of losses) lives in its state and survives a crash; what
    belongs to this process (its speed) lives here.

    Args:
        log_every: steps of a log line.
        ceiling: the most operations a second that the device makes, asked for when it is needed.
    """

    def __init__(self, *, log_every: int, ceiling: Callable[[], float]) -> None:
        self._log_every = log_every
        self._ceiling = ceiling
        self._forget()

    def _forget(self) -> None:
        self._num_tokens = 0
        self._seconds = 0.0
        self._data_seconds = 0.0
        self._work: Work | None = Work(0.0, 0.0)

    def add(self, step: StepRecord, state: TrainingState, eta_seconds: float) -> LogRecord | None:
        """Count a step in, here and in `state`; the log line where one is due."""
        interval = state.interval
        interval.loss += step.loss * step.num_tokens
        interval.nll += step.nll * step.num_tokens
        interval.num_tokens += step.num_tokens
        self._num_tokens += step.num_tokens
        self._seconds += step.seconds
        self._data_seconds += step.data_seconds
        if self._work is not None:
            self._work = None if step.work is None else self._work + step.work
        if step.step % self._log_every:
            return None
        nll = interval.nll / interval.num_tokens
        record = LogRecord(
            step=step.step,
            epoch=step.epoch,
            loss=interval.loss / interval.num_tokens,
            nll=nll,
            perplexity=math.exp(min(nll, 700.0)),  # 700: the last that fits a float
            accuracy=None if step.num_correct is None else step.num_correct / step.num_tokens,
            learning_rate=step.learning_rate,
            gradient_norm=step.gradient_norm,
            num_tokens=state.num_tokens,
            tokens_per_second=self._num_tokens / self._seconds,
            data_share=self._data_seconds / self._seconds,
            eta_seconds=eta_seconds,
        )
        if self._work is not None:
            most = self._ceiling() * self._seconds
            record = replace(
                record,
                utilisation=self._work.real / most,
                padded_utilisation=self._work.padded / most,
            )
        state.interval = IntervalSums()
        self._forget()
        return record
