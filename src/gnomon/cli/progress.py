"""A live progress bar and log lines for a training, on standard error."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from gnomon.training import (
    AverageRecord,
    CheckpointRecord,
    Listener,
    LogRecord,
    Outcome,
    StartRecord,
    StepRecord,
    ValidationRecord,
)

_REASONS = {
    "max_steps": "all steps are done",
    "max_epochs": "all epochs are done",
    "max_minutes": "the time is used up",
    "early_stopping": "validation stopped getting better",
    "interrupted": "stopped as asked; the same command continues",
}


class TrainingProgress(Listener):
    """Shows step, loss, learning rate, target tokens/s and time left; validations stay as lines.

    On a terminal the bar is redrawn in place; elsewhere each log record is one plain line.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar = Progress(
            TextColumn("[bold]training[/]"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._tokens = self._seconds = 0.0
        self._unit = ""

    def on_start(self, record: StartRecord) -> None:
        """Say what is about to run and start the bar."""
        self._unit = record.unit
        verb = f"continuing after step {record.step}" if record.step else "starting"
        self.console.print(f"{verb}, up to step {record.total_steps}; {record.precision}")
        self.console.print(record.parameter_groups, style="dim", highlight=False)
        self._task = self._bar.add_task(
            "", total=record.total_steps, completed=record.step, figures=""
        )
        if self.console.is_terminal:
            self._bar.start()

    def on_step(self, record: StepRecord) -> None:
        """Move the bar."""
        # A decaying mean over about 20 steps, so that the speed is readable yet current.
        self._tokens = 0.95 * self._tokens + record.num_tokens
        self._seconds = 0.95 * self._seconds + record.seconds
        if self._task is not None:
            speed = self._tokens / max(self._seconds, 1e-9)
            figures = f"loss {record.loss:.3f} · lr {record.learning_rate:.1e} · {speed:,.0f} "
            figures += f"{self._unit}/s"
            self._bar.update(self._task, completed=record.step, figures=figures)

    def on_log(self, record: LogRecord) -> None:
        """One plain line, where there is no terminal to draw a bar on."""
        if not self.console.is_terminal:
            self.console.print(
                f"step {record.step} epoch {record.epoch} loss {record.loss:.3f} "
                f"{self._perplexity(record)}lr {record.learning_rate:.2e} "
                f"{record.tokens_per_second:,.0f} {self._unit}/s "
                f"{_utilisation(record)}data wait {record.data_share:.1%} "
                f"ETA {timedelta(seconds=round(record.eta_seconds))}",
                highlight=False,
            )

    def _perplexity(self, record: LogRecord) -> str:
        """Of tokens; nobody speaks of a label's."""
        return f"ppl {record.perplexity:.2f} " if self._unit.endswith("tok") else ""

    def on_validation(self, record: ValidationRecord) -> None:
        """One line with every metric."""
        figures = "  ".join(f"{name} {value:.4g}" for name, value in record.metrics.items())
        mark = " [green]best[/]" if record.is_best else ""
        self.console.print(f"validation at step {record.step}: {figures}{mark}")

    def on_checkpoint(self, record: CheckpointRecord) -> None:
        """Checkpoints come often; they are not worth a line."""

    def on_average(self, record: AverageRecord) -> None:
        """One line: what went in, what it measures, whether it is taken by default."""
        figures = "  ".join(f"{name} {value:.4g}" for name, value in record.metrics.items())
        mark = " [green]best[/]" if record.is_best else ", not better than the best step"
        self.console.print(
            f"average of {len(record.members)} checkpoints "
            f"(steps {', '.join(map(str, record.members))}): {figures}{mark}"
        )

    def on_message(self, level: Literal["info", "warning"], text: str) -> None:
        """Warnings in yellow."""
        self.console.print(text, style="yellow" if level == "warning" else "", markup=False)

    def on_end(self, outcome: Outcome) -> None:
        """Say why it ended."""
        self._bar.stop()
        best = "" if outcome.best_step is None else f", best at step {outcome.best_step}"
        self.console.print(
            f"training ended at step {outcome.step}: {_REASONS.get(outcome.reason, outcome.reason)}"
            f"{best}"
        )

    def close(self) -> None:
        """Give the terminal back."""
        self._bar.stop()


def _utilisation(record: LogRecord) -> str:
    """Model FLOPs utilisation, padding counted in brackets."""
    if record.utilisation is None or record.padded_utilisation is None:
        return ""
    return f"MFU {record.utilisation:.0%} ({record.padded_utilisation:.0%} padded) "
