"""`gnomon extend`: positions replaced by rotary ones, stretched or resized."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gnomon.cli.console import print_line, say


class Method(StrEnum):
    """What is done to the positions."""

    ROPE = "rope"
    LINEAR = "linear"
    NTK = "ntk"
    DYNAMIC_NTK = "dynamic_ntk"
    YARN = "yarn"
    RESIZE = "resize"


def extend(
    model: Annotated[Path, typer.Argument(help="A run, a checkpoint or a model folder.")],
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="The folder to write; must not exist yet.")
    ],
    method: Annotated[
        Method,
        typer.Option(
            help="rope replaces any positions by rotary ones (then fine-tune); linear, ntk, "
            "dynamic_ntk and yarn stretch rotary ones; resize interpolates a learned table."
        ),
    ],
    length: Annotated[int | None, typer.Option(help="Tokens that the model should reach.")] = None,
    factor: Annotated[
        float | None,
        typer.Option(help="In place of --length: how many times the trained length."),
    ] = None,
    trained_length: Annotated[
        int | None,
        typer.Option(help="Tokens of the longest texts in training, where MODEL does not say."),
    ] = None,
    theta: Annotated[
        float | None, typer.Option(help="Of rope: base of the wavelengths (10000).")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(help="Of a run: best, last, averaged or step-N.")
    ] = "best",
) -> None:
    """Give a trained model other positions, or a longer reach.

    What changed goes to standard error, the folder written to standard output.
    """
    from gnomon import api

    done = api.extend(
        model,
        output,
        method=method.value,
        length=length,
        factor=factor,
        trained_length=trained_length,
        theta=theta,
        checkpoint=checkpoint,
    )
    for change in done.changes:
        say(change)
    settings = " ".join(f"--set {setting}" for setting in done.settings)
    verb = "next, since no layer knows these positions yet" if done.needs_training else "fine-tune"
    say(f"{verb}: gnomon train RECIPE --from {done.folder} {settings}")
    print_line(str(done.folder))
