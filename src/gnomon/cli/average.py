"""`gnomon average`: the mean of several checkpoints or models as a model of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnomon.cli.console import print_line, say


def average(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL...", help="One run; or several runs, checkpoints or model folders."
        ),
    ],
    last: Annotated[
        int | None, typer.Option(help="Of a run: average its newest checkpoints, so many.")
    ] = None,
    best: Annotated[
        int | None, typer.Option(help="Of a run: average those that validated best, so many.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The folder to write; of a run by default checkpoints/averaged."
        ),
    ] = None,
) -> None:
    """Average weights. What was written goes to standard output."""
    from gnomon import api

    folder = api.average(models, last=last, best=best, output=output)
    say(f"next: gnomon evaluate {folder}")
    print_line(str(folder))
