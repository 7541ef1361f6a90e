"""Means of checkpoints, and checkpoints that decode together."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.worth.measure import Table, plain

import gnomon
from gnomon.api import average
from gnomon.training import RunFolder


def averages(run: Path, table: Table) -> None:
    """Of the checkpoints that the run kept."""
    checkpoints = RunFolder(run).checkpoints
    steps = checkpoints.steps()
    table.begin("average of checkpoints")
    table.row(f"last step ({steps[-1]})", plain(gnomon.load(checkpoints.path(steps[-1]))))
    for kind in ("last", "best"):
        for count in (2, 4, 8):
            if count <= len(steps) and not (kind == "best" and count == len(steps)):
                with TemporaryDirectory() as scratch:
                    folder = average([run], output=Path(scratch) / "mean", **{kind: count})
                    table.row(f"{kind} {count}", plain(gnomon.load(folder)))


def ensembles(run: Path, others: list[Path], table: Table) -> None:
    """Of the given models, or of one run's checkpoints where none are given."""
    checkpoints = RunFolder(run).checkpoints
    steps = checkpoints.steps()
    if others:
        first, members, about = run, others, "models"
    else:
        # Those furthest apart first: neighbours are all but the same model.
        chosen = sorted({steps[-1], steps[0], steps[len(steps) // 2], steps[len(steps) // 4]})
        first, *members = [checkpoints.path(step) for step in reversed(chosen)]
        about = "checkpoints of one run"
    table.begin(f"ensemble of {about}: {', '.join(path.name for path in (first, *members))}")
    table.row("first alone", plain(gnomon.load(first)))
    for count in sorted({1, len(members)}):
        both = gnomon.load(first, ensemble=members[-count:])
        table.row(f"{count + 1} models", plain(both))
    both = gnomon.load(first, ensemble=members[-1:], combination="log_mean")
    table.row("2 models, log_mean", plain(both))
