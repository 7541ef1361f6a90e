"""The tree of verbs. Verb modules stay light: what they need is imported when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from gnomon import __version__
from gnomon.cli import (
    align,
    average,
    backtranslate,
    evaluate,
    prepare,
    quickstart,
    recipe,
    runs,
    score,
    train,
    translate,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train, check, ship and explain Transformers on your own text.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gnomon {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


app.command("quickstart")(quickstart.quickstart)
app.command("prepare")(prepare.prepare)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("runs")(runs.runs)
app.command("translate")(translate.translate)
app.command("score")(score.score)
app.command("average")(average.average)
app.command("align")(align.align)
app.command("backtranslate")(backtranslate.backtranslate)
app.add_typer(recipe.app, name="recipe")
