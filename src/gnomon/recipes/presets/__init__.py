"""The recipes that ship with gnomon: one TOML file each, readable as they are.

Reading them imports neither torch nor pydantic, so that listing presets is instant.
"""

from __future__ import annotations

from importlib import resources

from gnomon.errors import RecipeError


def preset_names() -> list[str]:
    """The names of all shipped presets, sorted."""
    folder = resources.files(__name__)
    return sorted(
        f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")
    )


def preset_text(name: str) -> str:
    """The TOML text of preset `name`, comments included.

    Raises:
        RecipeError: there is no preset of that name.
    """
    if name not in preset_names():
        raise RecipeError(
            "a recipe is a TOML file or the name of a preset",
            seen=name,
            mend=f"presets: {', '.join(preset_names())}; or give a path that ends in .toml",
        )
    return resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
