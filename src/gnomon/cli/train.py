"""`gnomon train`: train a recipe on your own files, or continue the run that is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli import options
from gnomon.cli.console import console, say, warn

if TYPE_CHECKING:
    from gnomon.api import Training
    from gnomon.doctor import Report
    from gnomon.training import Listener

# What pretraining makes, to be fine-tuned: a model of another task.
_MADE = {"masked_lm": "encoder", "replaced_tokens": "classification"}


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
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE",
            help="Start although this check of the doctor fails. May be given again.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Train nothing and write nothing: say what it will cost in parameters, "
            "operations, memory and time.",
        ),
    ] = False,
    fit: Annotated[
        bool,
        typer.Option(
            "--fit",
            help="Train nothing: try how large a batch fits into memory, and say what to set.",
        ),
    ] = False,
    profile: Annotated[
        int | None,
        typer.Option(
            metavar="STEPS",
            min=1,
            help="Record so many early steps by PyTorch's profiler, into RUN/profile.",
            show_default=False,
        ),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="With --dry-run or --fit: as JSON on standard output.")
    ] = False,
) -> None:
    """Train a recipe. The same command again continues a run that was stopped, bit for bit."""
    from gnomon import api
    from gnomon.cli.progress import TrainingProgress
    from gnomon.errors import RecipeError

    if json_ and not (dry_run or fit):
        mend = "leave it out; a run keeps its own metrics.jsonl"
        raise RecipeError("--json goes with --dry-run and --fit", mend=mend)
    if dry_run and fit:
        raise RecipeError("--dry-run and --fit are two questions", mend="ask one at a time")
    loaded = api.read_recipe(
        recipe,
        source=src,
        target=tgt,
        data=data,
        valid_source=valid_src,
        valid_target=valid_tgt,
        valid_data=valid_data,
        overrides=set_ or [],
    )
    if dry_run:
        from gnomon.cli.forecast import print_forecast

        print_forecast(api.forecast(loaded, run=run, start_from=from_, say=say), as_json=json_)
        return
    if fit:
        from gnomon.cli.forecast import print_fit

        print_fit(api.fit(loaded, run=run, start_from=from_, say=say), as_json=json_)
        return
    listeners: list[Listener] = [TrainingProgress(console())]
    if profile is not None:
        from gnomon.training.profile import ProfileSteps

        listeners.append(ProfileSteps(api.run_path(loaded, run) / "profile", profile, say))
    training = api.train(
        loaded,
        run=run,
        start_from=from_,
        listeners=listeners,
        say=say,
        accept=accept or (),
        examined=_say_examined,
    )
    outcome = training.outcome
    if outcome.finished and training.rank == 0:
        _say_expected(training)
        _say_scores(training)
        task = training.recipe.task
        verb = api.VERBS[_MADE.get(task, task)]
        use = f"gnomon {verb} {training.run} < input.txt"
        if task in _MADE:
            first = f"gnomon train finetune --data labelled.tsv --from {training.run}"
        else:
            first = f"gnomon evaluate {training.run}"
        say(f"next: {first}")
        say(f"      {use}")
    raise typer.Exit(outcome.exit_code)


def _say_examined(report: Report) -> None:
    """How many of the doctor's checks hold, and what it warns of; what fails stops the training."""
    say(preflight_line(report))
    for each in (*report.of("warn"), *(f for f in report if f.suppressed)):
        accepted = f" (accepted: {each.suppressed})" if each.suppressed else ""
        warn(f"{each.code}{accepted}: {each.evidence}")


def preflight_line(report: Report) -> str:
    """ "19 of 20 checks hold before the first step (2 do not apply; 1.1 s)"."""
    counts = report.counts()
    skipped, foreign = counts["skip"], counts["n/a"]
    made = len(report.findings) - skipped - foreign
    others = [f"{skipped} skipped"] if skipped else []
    if foreign:
        others.append(f"{foreign} {'does' if foreign == 1 else 'do'} not apply")
    return (
        f"{counts['pass']} of {made} checks hold before the first step "
        f"({''.join(f'{each}; ' for each in others)}{report.seconds:.1f} s)"
    )


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

    if not training.recipe.has_test():
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
