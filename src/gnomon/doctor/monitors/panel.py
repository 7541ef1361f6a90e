"""All monitors of one training: who looks when, what is told, what it costs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from gnomon.doctor.finding import Finding
from gnomon.doctor.monitors.monitor import Monitor, Sample, Seen, sentence
from gnomon.training.events import MonitorRecord

# Trouble shows early, so the first looks are closer together.
_FIRST_LOOKS = frozenset({1, 2, 5, 10, 20})


class Panel:
    """Hands each occasion to the monitors, and their findings on: each code once a process.

    Args:
        every: steps between the looks that cost something.

    Attributes:
        findings: those told so far, by code.
        seconds: spent in each kind of monitor.
    """

    def __init__(self, monitors: Sequence[Monitor], *, every: int = 50) -> None:
        self.monitors = list(monitors)
        self.every = every
        self.findings: dict[str, Finding] = {}
        self.seconds: dict[str, float] = defaultdict(float)

    def is_due(self, step: int) -> bool:
        """Whether this step's gradients, update and attention are looked at."""
        return step % self.every == 0 or (step in _FIRST_LOOKS and step < self.every)

    def on_gradients(self, step: int) -> None:
        """To be called before the optimizer's step."""
        if self.is_due(step):
            for monitor in self.monitors:
                with self._timed(monitor), generators_kept():
                    monitor.on_gradients(step)

    def on_step(self, step: int, loss: float, learning_rate: float) -> list[MonitorRecord]:
        """To be called after the optimizer's step."""
        records = self._ask(step, lambda m: m.on_loss(step, loss, learning_rate), quick=True)
        if self.is_due(step):
            records += self._ask(step, lambda monitor: monitor.on_update(step))
        return records

    def on_validation(self, step: int, sample: Sample) -> list[MonitorRecord]:
        """To be called after a validation."""
        return self._ask(step, lambda monitor: monitor.on_validation(step, sample))

    def _ask(
        self, step: int, look: Callable[[Monitor], Seen | None], *, quick: bool = False
    ) -> list[MonitorRecord]:
        records = []
        for monitor in self.monitors:
            with self._timed(monitor):
                if quick:
                    seen = look(monitor)
                else:
                    with generators_kept():
                        seen = look(monitor)
            if seen is not None:
                warning = self._told(seen.finding)
                records.append(MonitorRecord(step, monitor.kind, seen.values, warning))
        return records

    def _told(self, finding: Finding | None) -> str | None:
        if finding is None or finding.code in self.findings:
            return None
        self.findings[finding.code] = finding
        return sentence(finding)

    @contextmanager
    def _timed(self, monitor: Monitor) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[monitor.kind] += time.perf_counter() - start


@contextmanager
def generators_kept() -> Iterator[None]:
    """Torch's generators are afterwards where they were: training draws the same numbers."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=devices):
        yield
