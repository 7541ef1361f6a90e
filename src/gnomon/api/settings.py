"""Settings of an evaluation that a call changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from gnomon.errors import RecipeError

Config = TypeVar("Config", bound=Any)


def changed_settings(config: Config, settings: Mapping[str, Any] | None) -> Config:
    """A config with some fields changed; None changes nothing.

    Raises:
        RecipeError: a field is unknown, out of range or without effect.
    """
    known = {name: value for name, value in (settings or {}).items() if value is not None}
    names = [item.name for item in fields(config)]
    if unknown := [name for name in known if name not in names]:
        raise RecipeError(
            f"evaluation settings are fields of {type(config).__name__}",
            seen=", ".join(unknown),
            mend=f"fields: {', '.join(names)}",
        )
    changed: Config = replace(config, **known)
    if problems := changed.problems():
        raise RecipeError("the evaluation settings must hold", seen="; ".join(problems))
    unused: list[str] = changed.unused() if hasattr(changed, "unused") else []
    if ignored := [one for one in unused if one.split(" ")[0] in known]:
        raise RecipeError("an evaluation setting must have an effect", seen="; ".join(ignored))
    return changed
