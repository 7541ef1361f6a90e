"""What the loop tells whoever listens: progress bars, logs, monitors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from gnomon.training.guard import NonFinite
    from gnomon.training.utilisation import Work


@dataclass(frozen=True)
class StartRecord:
    """Sent once, before the first step of this process."""

    step: int  # steps already done, above 0 when a training continues
    total_steps: int  # where it will end at the latest
    precision: str  # the sentence that says which number format and why
    parameter_groups: str  # table for a person
    unit: str = "target tok"  # what the objective counts, for speeds


@dataclass(frozen=True)
class StepRecord:
    """One optimizer step; its figures cost no extra wait for the device."""

    step: int  # from 1
    epoch: int  # from 0
    loss: float  # smoothed, per target token
    nll: float  # nats per target token, without smoothing
    learning_rate: float
    gradient_norm: float  # before clipping
    num_tokens: int  # target tokens
    num_correct: int | None  # top-1 hits, only on steps that are logged
    seconds: float
    data_seconds: float  # of these, spent waiting for batches
    work: Work | None = None  # its floating-point operations, where they are counted


@dataclass(frozen=True)
class LogRecord:
    """Averages over the steps since the last log line."""

    step: int
    epoch: int
    loss: float
    nll: float
    perplexity: float
    accuracy: float | None  # of the last step
    learning_rate: float
    gradient_norm: float  # of the last step
    num_tokens: int  # target tokens since step 0
    tokens_per_second: float
    data_share: float  # of the time, waiting for batches
    eta_seconds: float
    # Operations a second by the most that matrix products make here: of the tokens, and of the
    # tokens with padding; None where they are not counted.
    utilisation: float | None = None
    padded_utilisation: float | None = None


@dataclass(frozen=True)
class ValidationRecord:
    """One validation."""

    step: int
    metrics: Mapping[str, float]
    is_best: bool
    seconds: float


@dataclass(frozen=True)
class CheckpointRecord:
    """A checkpoint that is safely on the disk."""

    step: int
    path: Path
    seconds: float


@dataclass(frozen=True)
class AverageRecord:
    """The mean of several checkpoints is on the disk as a model folder of its own."""

    step: int
    members: Sequence[int]  # steps whose weights went in
    metrics: Mapping[str, float]  # of validation; empty where there is none
    is_best: bool  # better than every single step
    path: Path
    seconds: float


@dataclass(frozen=True)
class MonitorRecord:
    """What a monitor saw of the training itself."""

    step: int
    kind: str  # "updates", "attention" …: the kind of its lines in metrics.jsonl
    values: Mapping[str, float]
    warning: str | None = None  # for a person, said once


@dataclass(frozen=True)
class FailedStep:
    """A step with a loss or gradient that is not finite; the weights are as they were before it."""

    step: int
    loss: float
    gradient_norm: float
    batches: Sequence[Any]  # the guilty micro-batch, or all where none alone is
    num_tokens: int  # that the losses of all micro-batches are divided by
    generators: Mapping[str, Tensor]  # states just before the forward pass of `batches`
    precision: str  # "fp32" or "bf16"
    first: NonFinite | None  # where the first NaN or infinity arose
    lines: str  # which examples these are
    again: Callable[[], Tensor]  # forward and backward pass of `batches`; the loss


@dataclass(frozen=True)
class Outcome:
    """How `fit` ended.

    `reason` is "max_steps", "max_epochs", "max_minutes" or "early_stopping" when training is
    over, "interrupted" when the same command will continue it.
    """

    step: int
    reason: str
    best_step: int | None = None
    signal_number: int | None = None

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        return self.signal_number is None

    @property
    def exit_code(self) -> int:
        """0 when finished, else 128 + signal (130 Ctrl-C, 143 SIGTERM) as shells report it.

        Not 0 for a clean stop: whoever waits for the command must not take it for a finished one.
        """
        return 0 if self.signal_number is None else 128 + self.signal_number


class Listener:
    """Base of everything that follows a training; override what is of interest.

    Listeners run between steps in the training process, so they are quick and draw no random
    numbers.
    """

    def on_start(self, record: StartRecord) -> None:
        """Training begins or continues."""

    def on_step(self, record: StepRecord) -> None:
        """An optimizer step is done."""

    def on_log(self, record: LogRecord) -> None:
        """`log_every` steps are done."""

    def on_validation(self, record: ValidationRecord) -> None:
        """A validation is done."""

    def on_checkpoint(self, record: CheckpointRecord) -> None:
        """A checkpoint is safely on the disk."""

    def on_monitor(self, record: MonitorRecord) -> None:
        """A monitor has measured something; its warning also comes as a message."""

    def on_average(self, record: AverageRecord) -> None:
        """Checkpoints were averaged, after the last step."""

    def on_message(self, level: Literal["info", "warning"], text: str) -> None:
        """Something a person should read."""

    def on_end(self, outcome: Outcome) -> None:
        """`fit` is about to return; not sent when it raises."""

    def close(self) -> None:
        """`fit` is over, however it ended; release files."""


class Monitors(Protocol):
    """What looks at the model between the steps: may read everything, must change nothing."""

    def on_gradients(self, step: int) -> None:
        """The step's gradients are there, finite and not yet clipped; the weights are the old."""
        ...

    def on_step(self, record: StepRecord) -> Iterable[MonitorRecord]:
        """The step is done."""
        ...

    def on_validation(self, record: ValidationRecord) -> Iterable[MonitorRecord]:
        """A validation is done; the model is the one that was validated."""
        ...

    def on_failed_step(self, failed: FailedStep) -> str | None:
        """Keep what it takes to look into it; where that is, in one sentence, is returned."""
        ...
