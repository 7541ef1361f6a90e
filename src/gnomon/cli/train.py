"""`gnomon train`: train a recipe on your own files, or continue the run that is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli import options
from gnomon.cli.console import console, say

if TYPE_CHECKING:
    from gnomon.api import Training
    from gnomon.tasks import TranslationTask


def train(
    recipe: options.RecipeArgument,
    src: options.SourceOption = None,
    tgt: options.TargetOption = None,
    data: options.DataOption = None,
    valid_src: options.ValidSourceOption = None,
    valid_tgt: options.ValidTargetOption = None,
    valid_data: options.ValidDataOption = None,
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
        valid_source=valid_src,
        valid_target=valid_tgt,
        valid_data=valid_data,
        overrides=set_ or [],
        run=run,
        start_from=from_,
        listeners=[TrainingProgress(console())],
        say=say,
        before_start=lambda task: _check(task, untrained=from_ is None),
    )
    outcome = training.outcome
    if outcome.finished:
        _say_expected(training)
        _say_scores(training)
        say(f"next: gnomon evaluate {training.run}")
        say(f"      gnomon translate {training.run} < input.txt")
    raise typer.Exit(outcome.exit_code)


def _check(task: TranslationTask, *, untrained: bool) -> None:
    """Run the sanity checks and name those that do not hold; what to do is the user's choice."""
    from gnomon.training import check_sanity

    checks = check_sanity(task, untrained=untrained)
    failed = [check for check in checks if not check.passed]
    say(f"{len(checks) - len(failed)} of {len(checks)} sanity checks hold")
    for check in failed:
        console().print(f"not so: {check.title} ({check.evidence})", style="yellow", markup=False)


def _say_expected(training: Training) -> None:
    """Whether the run kept to the curve that ships with its preset, where there is one."""
    from gnomon import api

    found = api.check_curve(training.run)
    if found.verdict is not None:
        console().print(
            found.sentence,
            style="" if found.passed else "yellow",
            markup=False,
            highlight=False,
        )


def _say_scores(training: Training) -> None:
    """Scores of the test text, if the recipe names one, and where the report is.

    Training is done and safe by now: what goes wrong here is said and does not make it fail.
    """
    from gnomon import api
    from gnomon.errors import GnomonError

    if not training.recipe.data.split("test"):
        return
    try:
        scores = api.scores_of(training.run)
    except GnomonError as error:
        console().print(f"not evaluated: {error}", style="yellow", markup=False)
        return
    say(f"{' '.join(scores.files)}, {scores.num_lines:,} lines, {scores.checkpoint}:")
    for name, value in scores.scores.items():
        say(f"  {name} {value:.2f}  {scores.signatures[name]}")
    say(f"report: {scores.path}")
