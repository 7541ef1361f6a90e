"""`gnomon prepare`: clean, train the tokenizer, build the token store, say what was left out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.cli import options
from gnomon.cli.console import console, print_line, say


def prepare(
    recipe: options.RecipeArgument,
    src: options.SourceOption = None,
    tgt: options.TargetOption = None,
    data: options.DataOption = None,
    valid_src: options.ValidSourceOption = None,
    valid_tgt: options.ValidTargetOption = None,
    valid_data: options.ValidDataOption = None,
    set_: options.SetOption = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="The run this is for (default: runs/NAME).")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only look: build nothing, write nothing.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", help="With --dry-run: write every line that was found to this TSV."
        ),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="What was found, as JSON on standard output.")
    ] = False,
) -> None:
    """Clean the text, train the tokenizer, encode the corpus; print what was left out and why."""
    from gnomon import api
    from gnomon.errors import RecipeError

    if report is not None and not dry_run:
        raise RecipeError(
            "--report goes with --dry-run",
            mend="leave it out: without --dry-run the list is kept beside the token store, "
            "and its path is printed",
        )
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
    if not dry_run:
        prepared = api.prepare(loaded, run=run, say=say)
        if json_ and prepared is not None:
            _print_json({"train": prepared.cleaned.report.to_dict()})
        return
    from gnomon.cli.findings import print_findings

    look = api.dry_run(loaded, findings=report)
    if json_:
        _print_json(look.to_dict())
    else:
        print_findings(look, console())
        if report is not None:
            say(f"every line that was found: {report}")


def _print_json(values: dict[str, Any]) -> None:
    import json

    print_line(json.dumps(values, ensure_ascii=False))
