"""The command-line page names every verb and option there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import typer.main

from gnomon.cli.app import app

ROOT = Path(__file__).parents[2]


def _opposites(names: list[str]) -> list[str]:
    """Those with a name of their own: "--bidirectional", not "--no-split"."""
    return [name for name in names if not name.startswith("--no-")]


def _options() -> dict[str, set[str]]:
    root = typer.main.get_command(app)
    found = {}
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        commands = getattr(command, "commands", {"": command}).values()
        found[name] = {
            option
            for one in commands
            for parameter in one.params
            if parameter.param_type_name == "option"
            for option in (*parameter.opts, *_opposites(parameter.secondary_opts))
            if option not in ("--help", "-h")
        }
    return found


def test_cli_page_is_complete() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    sections = {
        section.split()[0]: set(re.findall(r"`(--?[a-z][a-z-]*)`", section))
        for section in page.split("## gnomon ")[1:]
    }
    options = _options()
    assert sections.keys() == options.keys()
    for verb, names in options.items():
        # A section may say "as for `evaluate`" but it names the options all the same.
        assert sections[verb] == names, verb


def test_every_preset_named_in_the_docs_exists() -> None:
    from gnomon.recipes.presets import preset_names

    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(
            r"gnomon (?:train|prepare|recipe show) ([a-z][a-z-]+)\b(?!\.)", text
        ):
            assert name in preset_names(), (path.name, name)
