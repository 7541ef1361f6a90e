"""A recipe as text: expanded TOML, the difference between two, the JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import tomli_w
from pydantic import TypeAdapter

from gnomon.recipes.recipe import Recipe


def to_toml(recipe: Recipe) -> str:
    """The recipe with every key written out. Keys that are unset (None) are left out."""
    return tomli_w.dumps(_without_none(asdict(recipe)))


def difference(old: Recipe, new: Recipe) -> list[str]:
    """One line `table.key: old → new` for each key in which two recipes differ."""
    before, after = flatten(asdict(old)), flatten(asdict(new))
    return [
        f"{key}: {before.get(key)!r} → {after.get(key)!r}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def json_schema() -> dict[str, Any]:
    """The JSON schema of a recipe, for editors that complete and check TOML."""
    return TypeAdapter(Recipe).json_schema()


def _without_none(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _without_none(value) for key, value in tree.items() if value is not None}
    return [_without_none(item) for item in tree] if isinstance(tree, tuple | list) else tree


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A tree of tables as dotted keys and their values."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        elif isinstance(value, tuple | list) and any(isinstance(item, Mapping) for item in value):
            flat |= flatten(
                {str(index): item for index, item in enumerate(value)}, f"{prefix}{key}."
            )
        else:
            flat[prefix + key] = value
    return flat
