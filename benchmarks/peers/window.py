"""From a running command to a speed: one stopwatch for everybody, and the timed window."""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """A line of output and when it arrived."""

    seconds: float
    text: str


@dataclass(frozen=True)
class Report:
    """What a toolkit says it has done since its last report."""

    seconds: float  # when it said so
    update: int  # updates done in all
    target_tokens: float  # since the last report; padding not counted, end of sentence counted


@dataclass(frozen=True)
class Window:
    """What was trained after the warm-up, and how long it took."""

    seconds: float
    target_tokens: float
    updates: int

    @property
    def tokens_per_second(self) -> float:
        return self.target_tokens / self.seconds

    @property
    def tokens_per_update(self) -> float:
        return self.target_tokens / self.updates


class TrainingError(Exception):
    """A training stopped, or did not report what it was asked to."""


def run_and_watch(command: list[str], folder: Path, num_threads: int, clock: str) -> list[Line]:
    """Run `command` in `folder`; every line it printed, stamped as it came. Keeps `log.txt`.

    Args:
        clock: "wall", or "cpu" for the processor time that the command took so far, which other
            work on the machine disturbs less (Linux only; sensible with one thread).

    Raises:
        TrainingError: it exited with an error; the message holds the end of its output.
    """
    environment = os.environ | {"OMP_NUM_THREADS": str(num_threads), "PYTHONUNBUFFERED": "1"}
    lines = []
    with (
        (folder / "log.txt").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        for text in process.stdout:
            now = time.perf_counter() if clock == "wall" else _processor_seconds(process.pid)
            lines.append(Line(now, text.rstrip("\n")))
            log.write(text)
    if process.returncode:
        tail = "\n".join(line.text for line in lines[-15:])
        raise TrainingError(f"exit status {process.returncode}:\n{tail}")
    return lines


def _processor_seconds(process_id: int) -> float:
    """User and system time of a running process, from Linux's own accounts."""
    text = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
    fields = text.rpartition(")")[2].split()  # behind the name, which may hold spaces
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed_window(reports: list[Report], warmup_updates: int, num_updates: int) -> Window:
    """The updates `warmup_updates` < u ≤ `num_updates`.

    Raises:
        TrainingError: the reports do not begin and end the window.
    """
    timed = [report for report in reports if warmup_updates <= report.update <= num_updates]
    if not timed or timed[0].update != warmup_updates or timed[-1].update != num_updates:
        seen = [report.update for report in reports]
        raise TrainingError(
            f"no progress line for updates {warmup_updates} and {num_updates}; found: {seen}"
        )
    return Window(
        seconds=timed[-1].seconds - timed[0].seconds,
        target_tokens=sum(report.target_tokens for report in timed[1:]),
        updates=num_updates - warmup_updates,
    )


def reports_from_rates(rates: list[tuple[float, int, float]]) -> list[Report]:
    """Reports of a toolkit that prints (when, update, target tokens/s since its last line).

    Rate times time is the number of tokens, so a sum over reports weighs each as it should.
    """
    before = rates[0][0] if rates else 0.0
    reports = []
    for seconds, update, rate in rates:
        reports.append(Report(seconds, update, rate * (seconds - before)))
        before = seconds
    return reports
