"""`gnomon train`: train a recipe on your own files, or continue the run that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnomon.cli import options
from gnomon.cli.console import console, say


def train(
    recipe: options.RecipeArgument,
    src: options.SourceOption = None,
    tgt: options.TargetOption = None,
    data: options.DataOption = None,
    set_: options.SetOption = None,
    run: Annotated[
        Path | None, typer.Option(help="The folder to write; default runs/NAME.")
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Fine-tune this model: its weights and tokenizer, a new schedule."
        ),
    ] = None,
) -> None:
    """Train a recipe. The same command again continues a run that was stopped, bit for bit."""
    from gnomon import api
    from gnomon.cli.progress import TrainingProgress

    training = api.train(
        recipe,
        source=src,
        target=tgt,
        data=data,
        overrides=set_ or [],
        run=run,
        start_from=from_,
        listeners=[TrainingProgress(console())],
        say=say,
    )
    outcome = training.outcome
    if outcome.finished:
        console().print(f"next: [bold]gnomon evaluate {training.run}[/]")
        console().print(f"      [bold]gnomon translate {training.run} < input.txt[/]")
    raise typer.Exit(outcome.exit_code)
