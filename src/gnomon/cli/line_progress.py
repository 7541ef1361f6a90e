"""How far a verb is through its lines: how many are done, how many a second, the time left."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

from gnomon.cli.console import console, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EVERY = 10.0  # seconds between two plain lines


class LineProgress:
    """Shows on standard error how far a verb is; never in its results.

    At a terminal a bar is redrawn in place, unless results are printed at that terminal, too. With
    `wanted` there are plain lines now and then where there is no bar.

    Args:
        wanted: --progress or --no-progress; None: a bar or nothing.
        prints: results go to standard output meanwhile.
    """

    def __init__(self, wanted: bool | None, *, prints: bool) -> None:
        results_are_seen = prints and sys.stdout is not None and sys.stdout.isatty()
        draws = wanted is not False and console().is_terminal and not results_are_seen
        self._bar = _bar() if draws else None
        self._speaks = bool(wanted) and not draws
        self._task: TaskID | None = None

    @property
    def shown(self) -> bool:
        """Whether anybody sees it, so that it is worth finding out how many lines there are."""
        return self._bar is not None or self._speaks

    def begin(self, what: str, total: int | None) -> Callable[[float], None]:
        """Begin to count; returns what is told how many more lines are done.

        Args:
            what: is being done, such as "translating".
            total: lines; None: not known.
        """
        began = said = time.monotonic()
        done = 0.0
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task("", total=total, what=what, figures="")

        def advance(count: float) -> None:
            nonlocal done, said
            done += count
            now = time.monotonic()
            figures = figures_of(done, total, now - began)
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=done, figures=figures)
            elif self._speaks and now - said >= EVERY:
                said = now
                say(f"{what}: {figures}")

        return advance

    def __enter__(self) -> LineProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _bar() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.fields[what]}", style="bold", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[figures]}", markup=False),
        console=console(),
        transient=True,
        redirect_stdout=False,  # results are not for the terminal
        redirect_stderr=False,
    )


def figures_of(done: float, total: int | None, seconds: float) -> str:
    """For example "1,024 of 10,000 lines, 35.2 lines/s, 0:04:15 left"."""
    lines = f"{done:,.0f} lines" if total is None else f"{done:,.0f} of {total:,} lines"
    if done <= 0 or seconds <= 0:
        return lines
    rate = done / seconds
    figures = f"{lines}, {rate:,.1f} lines/s"
    if total is not None:
        figures += f", {timedelta(seconds=round(max(0.0, total - done) / rate))} left"
    return figures


def lines_of(text: Path | BinaryIO) -> int | None:
    """How many lines a text holds; None for what can be read only once, such as a pipe."""
    from gnomon.text import count_lines, read_lines

    if isinstance(text, Path):
        return count_lines(text) if text.is_file() else None
    try:
        number = text.fileno()
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return None
        before = os.lseek(number, 0, os.SEEK_CUR)
    except (OSError, ValueError):  # not a file of the system's
        return None
    try:
        # A duplicate shares its place with the original, which is put back.
        with os.fdopen(os.dup(number), "rb") as file:
            return sum(1 for _ in read_lines(file, errors="replace"))
    finally:
        os.lseek(number, before, os.SEEK_SET)
