"""`gnomon recipe`: list the shipped presets, show one, print the JSON schema."""

from __future__ import annotations

import json
import tomllib
from typing import Annotated

import typer

from gnomon.cli.console import print_line

app = typer.Typer(no_args_is_help=True, help="List and show recipes.")


@app.command("list")
def list_presets() -> None:
    """List the presets: recipes that ship with gnomon."""
    from gnomon.recipes.presets import preset_names, preset_text

    for name in preset_names():
        print_line(f"{name:16} {tomllib.loads(preset_text(name)).get('description', '')}")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A preset's name or a recipe file.")],
    expanded: Annotated[bool, typer.Option(help="Every key, defaults included.")] = False,
) -> None:
    """Print a recipe as TOML: `gnomon recipe show tiny > my.toml` is one you can edit and train."""
    from gnomon.recipes import load_recipe, recipe_text, to_toml

    text = to_toml(load_recipe(name)) if expanded else recipe_text(name)[0]
    print_line(text.rstrip("\n"))


@app.command("schema")
def schema() -> None:
    """Print the JSON schema of a recipe, for editors that complete and check TOML."""
    from gnomon.recipes import json_schema

    print_line(json.dumps(json_schema(), indent=2))
