"""A recipe as text: expanded TOML, the difference between two, the JSON schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import reduce
from itertools import zip_longest
from operator import or_
from typing import Any

import tomli_w
from pydantic import TypeAdapter

from gnomon.recipes.recipe import Recipe
from gnomon.recipes.tasks import RECIPES, recipe_class


def to_toml(recipe: Recipe) -> str:
    """The recipe with every key written out. Keys that are unset (None) are left out."""
    tree = asdict(recipe)
    return tomli_w.dumps(_without_none({name: tree[name] for name in _in_order(tree)}))


def _in_order(names: Iterable[str]) -> list[str]:
    """The keys of a recipe as people read it: what stands by itself, text, model, training, use."""
    return sorted(names, key=lambda name: _ORDER.index(name) if name in _ORDER else -1)


_ORDER = (
    *("data", "cleaning", "augmentation", "tokenizer", "model", "bilstm", "classifier"),
    *("masking", "replacement", "adaptation", "lora"),
    *("objective", "optimizer", "schedule", "training", "averaging", "memory"),
    *("decoding", "evaluation", "doctor"),
)


def difference(old: Recipe, new: Recipe) -> list[str]:
    """One line `table.key: old → new` for each key in which two recipes differ, table by table.

    Of a source that only one of them has there is one line, with what was set of it.
    """
    return [f"{key}: {before} → {after}" for key, before, after in _differing(old, new, "")]


def _differing(old: Any, new: Any, path: str) -> Iterator[tuple[str, str, str]]:
    names = [item.name for item in fields(new)]
    for name in names if path else _in_order(names):
        before, after = getattr(old, name), getattr(new, name)
        key = f"{path}{name}"
        if before == after:
            continue
        if is_dataclass(before) and is_dataclass(after):
            yield from _differing(before, after, f"{key}.")
        elif _holds_tables(before) or _holds_tables(after):
            for index, (one, two) in enumerate(zip_longest(before, after)):
                if one is None or two is None:
                    yield f"{key}.{index}", _settings(one), _settings(two)
                else:
                    yield from _differing(one, two, f"{key}.{index}.")
        else:
            yield key, repr(before), repr(after)


def _holds_tables(value: Any) -> bool:
    return isinstance(value, tuple) and any(is_dataclass(item) for item in value)


def _settings(table: Any) -> str:
    """What differs from the defaults of one table in a list; "none" where there is no table."""
    if table is None:
        return "none"
    values = ((item, getattr(table, item.name)) for item in fields(table))
    return ", ".join(f"{item.name} {value!r}" for item, value in values if value != item.default)


def keys_unknown_to(written: Mapping[str, Any]) -> list[str]:
    """Keys of today's recipe that one written out by an older gnomon does not hold.

    Args:
        written: the tree of a recipe with every key (`to_toml`), brought to today's names.
    """
    held = flatten(written)
    return [
        key
        for key, default in flatten(asdict(recipe_class(written)())).items()  # type: ignore[call-arg]
        # What is unset is not written out; a list of tables is held by its tables' keys.
        if default is not None and not any(f"{each}.".startswith(f"{key}.") for each in held)
    ]


def json_schema() -> dict[str, Any]:
    """The JSON schema of a recipe, for editors that complete and check TOML."""
    kinds: Any = reduce(or_, RECIPES.values())
    return TypeAdapter(kinds).json_schema()


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
