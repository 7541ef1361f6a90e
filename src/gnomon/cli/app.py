"""The tree of verbs. Verb modules stay light: what they need is imported when they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from gnomon import __version__
from gnomon.cli import (
    align,
    average,
    backtranslate,
    classify,
    doctor,
    embed,
    evaluate,
    exchange,
    extend,
    generate,
    needle,
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


def _add(name: str, verb: Callable[..., None]) -> None:
    """Each paragraph of a docstring becomes one line of the help, wrapped where it is read."""
    paragraphs = inspect.cleandoc(verb.__doc__ or "").split("\n\n")
    app.command(name, help="\n\n".join(" ".join(part.split("\n")) for part in paragraphs))(verb)


_add("quickstart", quickstart.quickstart)
_add("prepare", prepare.prepare)
_add("train", train.train)
_add("evaluate", evaluate.evaluate)
_add("runs", runs.runs)
_add("doctor", doctor.doctor)
_add("translate", translate.translate)
_add("classify", classify.classify)
_add("generate", generate.generate)
_add("score", score.score)
_add("average", average.average)
_add("extend", extend.extend)
_add("needle", needle.needle)
_add("align", align.align)
_add("backtranslate", backtranslate.backtranslate)
_add("embed", embed.embed)
_add("import", exchange.import_)
_add("export", exchange.export)
app.add_typer(recipe.app, name="recipe")
