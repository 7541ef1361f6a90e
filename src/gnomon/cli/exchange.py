"""`gnomon import` and `gnomon export`: models of others in, our models out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gnomon.cli import options
from gnomon.cli.console import print_line, say, warn


def import_(
    name: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|NAME",
            help="A Hugging Face folder; pkg:PACKAGE, an installed Python package; or a name on "
            "the hub.",
        ),
    ],
    out: Annotated[Path, typer.Argument(help="The model folder to write.")],
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            help="A key of its config.json that changes nothing. May be given again.",
            show_default=False,
        ),
    ] = None,
    head: Annotated[
        bool,
        typer.Option(help="Of a classifier its labels, too; otherwise the model below them alone."),
    ] = True,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="The classifier judges two texts at a time.")
    ] = False,
) -> None:
    """Take in a model of others. What was written goes to standard output.

    No code that comes with a model is run; what gnomon's blocks do not compute is refused by name.
    """
    from gnomon import api

    found = api.import_model(name, out, ignore=ignore or (), head=head, pairs=pairs)
    say(f"{found.model_type}, {found.num_parameters:,} parameters, task {found.task}")
    if found.kept:
        shown = ", ".join(found.kept[:4]) + (" …" if len(found.kept) > 4 else "")
        say(f"kept for the way back, not used: {len(found.kept)} tensors ({shown})")
    for note in found.notes:
        warn(note)
    print_line(str(found.folder))


def export(
    model: options.ModelArgument,
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    to: Annotated[Literal["huggingface"], typer.Option(help="The form to write.")] = "huggingface",
    checkpoint: options.CheckpointOption = "best",
) -> None:
    """Write a model in another form, read it back and compare, bit for bit."""
    from gnomon import api

    found = api.export_model(model, out, checkpoint=checkpoint)
    say(f"{found.model_type}: {found.num_tensors} tensors, read back and equal")
    print_line(str(found.folder))
