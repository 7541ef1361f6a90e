"""Who follows a training: listeners are told what happens, monitors look at the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gnomon.training.events import (
    FailedStep,
    Listener,
    MonitorRecord,
    Monitors,
    StepRecord,
    ValidationRecord,
)


class Audience:
    """Passes on to everyone who follows a training.

    Args:
        listeners: told of every step, log line, validation and checkpoint, in this order.
        monitors: look at the model between the steps; listeners are told what they see.
    """

    def __init__(self, listeners: Sequence[Listener], monitors: Monitors | None = None) -> None:
        self.listeners = list(listeners)
        self.monitors = monitors

    def tell(self, event: Callable[[Listener], None]) -> None:
        """Call every listener."""
        for listener in self.listeners:
            event(listener)

    def inform(self, text: str) -> None:
        """A sentence for a person."""
        self.tell(lambda listener: listener.on_message("info", text))

    def warn(self, text: str) -> None:
        """A sentence about something that may not be as wanted."""
        self.tell(lambda listener: listener.on_message("warning", text))

    def look_at_gradients(self, step: int) -> None:
        """The step's gradients are there and not yet clipped."""
        if self.monitors is not None:
            self.monitors.on_gradients(step)

    def look_at_step(self, record: StepRecord) -> None:
        """A step is done."""
        self.tell(lambda listener: listener.on_step(record))
        if self.monitors is not None:
            self._pass_on(self.monitors.on_step(record))

    def look_at_validation(self, record: ValidationRecord) -> None:
        """A validation is done."""
        self.tell(lambda listener: listener.on_validation(record))
        if self.monitors is not None:
            self._pass_on(self.monitors.on_validation(record))

    def look_at_failure(self, failed: FailedStep) -> str | None:
        """A step failed; what the monitors say of it, in one sentence."""
        return None if self.monitors is None else self.monitors.on_failed_step(failed)

    def _pass_on(self, records: Iterable[MonitorRecord]) -> None:
        for record in records:
            self.tell(lambda listener, record=record: listener.on_monitor(record))  # type: ignore[misc]
            if record.warning is not None:
                self.warn(record.warning)
