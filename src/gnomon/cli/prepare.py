"""`gnomon prepare`: clean, train the tokenizer, build the token store, say what was left out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnomon.cli import options
from gnomon.cli.console import say


def prepare(
    recipe: options.RecipeArgument,
    src: options.SourceOption = None,
    tgt: options.TargetOption = None,
    data: options.DataOption = None,
    set_: options.SetOption = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="The run this is for (default: runs/NAME).")
    ] = None,
) -> None:
    """Clean the text, train the tokenizer, encode the corpus; print what was left out and why."""
    from gnomon import api

    loaded = api.read_recipe(recipe, source=src, target=tgt, data=data, overrides=set_ or [])
    api.prepare(loaded, run=run, say=say)
