"""From TOML and overrides to a checked `Recipe`: every error at once, each with its mend."""

from __future__ import annotations

import difflib
import json
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from gnomon.errors import RecipeError
from gnomon.recipes.presets import preset_text
from gnomon.recipes.recipe import SCHEMA_VERSION, Recipe, tables
from gnomon.recipes.tasks import recipe_class

_RENAMED = {  # by the schema version that did so
    2: {f"data.{prefix}tsv": f"data.{prefix}pairs" for prefix in ("", "valid_", "test_")},
    3: {"tokenizer.bpe_dropout_variants": "data.variants"},
}

_NEW_NAMES = {old: new for renamed in _RENAMED.values() for old, new in renamed.items()}


class RecipeWarning(UserWarning):
    """A key that has no effect in this recipe."""


def load_recipe(
    recipe: str | Path, overrides: Iterable[str] = (), changes: Mapping[str, Any] | None = None
) -> Recipe:
    """Read a preset (by name) or a TOML file, apply overrides, check everything, resolve paths.

    Args:
        recipe: a preset's name, or the path of a TOML file. Paths in a file are relative to
            the file's own folder.
        overrides: texts `table.key=value`, the value in TOML (a bare word is taken as a string).
        changes: dotted keys to values, applied before `overrides` (paths relative to the caller).

    Raises:
        RecipeError: naming every unknown key, wrong type and broken rule at once.
    """
    tree, folder = _tree(recipe)
    tree = migrate(tree)
    _resolve_paths(tree, recipe_class(tree), folder)
    given = dict(changes or {}) | dict(_parse_override(override) for override in overrides)
    for key, value in given.items():
        _put(tree, _NEW_NAMES.get(key, key), value)
    _resolve_paths(tree, recipe_class(tree), Path.cwd())
    return recipe_from_tree(tree)


def recipe_kind(recipe: str | Path) -> type[Recipe]:
    """The class of a preset's or file's recipe, by its task alone.

    Raises:
        RecipeError: it cannot be read, or has no such task.
    """
    return recipe_class(_tree(recipe)[0])


def _tree(recipe: str | Path) -> tuple[dict[str, Any], Path]:
    """A recipe's plain values, and the folder that its paths are relative to."""
    text, folder = recipe_text(recipe)
    try:
        return tomllib.loads(text), folder
    except (ValueError, RecursionError) as error:  # bad TOML; endless numbers; endless nesting
        raise RecipeError(
            "a recipe is valid TOML",
            seen=f"{recipe}: {error}",
            mend="mend it there, or name a preset: `gnomon recipe list` shows them",
        ) from None


def recipe_text(recipe: str | Path) -> tuple[str, Path]:
    """The TOML of a preset or of a file, and the folder that its paths are relative to.

    Raises:
        RecipeError: there is no such preset, or no such file, or it cannot be read.
    """
    path = Path(recipe)
    if path.suffix == ".toml" or path.is_file():
        return _read(path), path.resolve().parent
    return preset_text(str(recipe)), Path.cwd()


def recipe_from_tree(tree: Mapping[str, Any]) -> Recipe:
    """Check a tree of plain values (as TOML gives it) and build the recipe.

    Raises:
        RecipeError: naming every unknown key, wrong type and broken rule at once.
    """
    tree = migrate(dict(tree))
    kind: Any = recipe_class(tree)
    problems = list(_unknown_keys(tree, kind))
    recipe: Recipe | None = None
    try:
        # JSON's strict mode takes a list for a tuple and an int for a float, and nothing else.
        recipe = _adapter(kind).validate_json(json.dumps(tree, default=str), strict=True)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            where = ".".join(str(part) for part in detail["loc"])
            problems.append(f"{where}: {detail['msg']}; seen: {detail['input']!r}")
    if recipe is not None:
        problems += broken_rules(recipe)
    if problems or recipe is None:
        listing = "\n".join(f"  - {problem}" for problem in problems)
        raise RecipeError(f"the recipe has {len(problems)} problem(s):\n{listing}")
    for message in keys_without_effect(recipe):
        warnings.warn(message, RecipeWarning, stacklevel=2)
    return recipe


def broken_rules(recipe: Recipe) -> list[str]:
    """What each table's own `problems()` finds, with the table's path in front."""
    found = []
    for path, table in tables(recipe):
        if hasattr(table, "problems"):
            found += [_with_table(path, problem) for problem in table.problems()]
    return found


def keys_without_effect(recipe: Recipe) -> list[str]:
    """Keys that were changed from their default but do nothing beside the others."""
    found = []
    for path, table in tables(recipe):
        if hasattr(table, "unused"):
            found += [_with_table(path, message) for message in table.unused()]
    return found


def _with_table(path: str, message: str) -> str:
    """`message` starts with a key; put the table in front where the room did not."""
    return message if not path or message.startswith(f"{path}.") else f"{path}.{message}"


def migrate(tree: dict[str, Any]) -> dict[str, Any]:
    """Bring a recipe of an older schema version to the current one.

    Raises:
        RecipeError: the recipe comes from a newer gnomon.
    """
    # Recipes written by hand name no version; what was renamed means the same in all of them.
    version = tree.get("schema_version", 1)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise RecipeError(
            f"this gnomon reads recipes up to schema version {SCHEMA_VERSION}",
            seen=version,
            mend="upgrade gnomon, or write the recipe for this version",
        )
    if isinstance(version, int) and version < SCHEMA_VERSION:
        tree = {k: dict(v) if isinstance(v, dict) else v for k, v in tree.items()}
        tree["schema_version"] = SCHEMA_VERSION
        for raised in range(version + 1, SCHEMA_VERSION + 1):
            for old, new in _RENAMED.get(raised, {}).items():
                _rename(tree, old, new)
    return tree


def _rename(tree: dict[str, Any], old: str, new: str) -> None:
    (old_table, old_key), (new_table, new_key) = old.split("."), new.split(".")
    if not isinstance(tree.get(old_table), dict) or old_key not in tree[old_table]:
        return
    value = tree[old_table].pop(old_key)
    table = tree.setdefault(new_table, {})
    if not isinstance(table, dict):
        return  # refused as soon as types are checked
    if new_key in table:
        raise RecipeError(
            f"{old} is now {new}: give one of the two", seen=f"{value!r} and {table[new_key]!r}"
        )
    table[new_key] = value


@cache
def _every_key(kind: Any) -> tuple[str, ...]:
    """The dotted keys of all tables of a kind of recipe."""
    return tuple(
        f"{path}.{item.name}" for path, table in tables(kind()) if path for item in fields(table)
    )


@cache
def _adapter(kind: Any) -> TypeAdapter[Recipe]:
    return TypeAdapter(kind)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise RecipeError("the recipe file must exist", seen=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError("the recipe must be a readable UTF-8 file", seen=error) from None


def _parse_override(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise RecipeError(
            "an override has the form table.key=value",
            seen=text,
            mend="for example --set training.max_steps=2000",
        )
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
    except (ValueError, RecursionError) as error:
        raise RecipeError("the value of an override is TOML", seen=error) from None


def _put(tree: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for parent in parents:
        branch = tree.setdefault(parent, {})
        if not isinstance(branch, dict):
            raise RecipeError("an override names a key inside a table", seen=dotted)
        tree = branch
    tree[last] = value


def _resolve_paths(tree: Any, kind: Any, folder: Path) -> None:
    """Make the paths of a table, and of the tables in it, relative to `folder`.

    Each config dataclass says in `paths` which of its keys are paths.
    """
    if not isinstance(tree, dict):
        return  # refused as soon as types are checked
    for key in getattr(kind, "paths", ()):
        if isinstance(tree.get(key), str) and tree[key]:
            tree[key] = str(folder / Path(tree[key]).expanduser())
    for key, hint in get_type_hints(kind).items():
        if is_dataclass(hint):
            _resolve_paths(tree.get(key), hint, folder)
        elif get_origin(hint) is tuple and is_dataclass(item := get_args(hint)[0]):
            several = tree.get(key)
            for each in several if isinstance(several, list) else ():
                _resolve_paths(each, item, folder)


def _unknown_keys(tree: Mapping[str, Any], kind: Any, path: str = "") -> Iterator[str]:
    hints = get_type_hints(kind)
    names = [item.name for item in fields(kind)]
    for key, value in tree.items():
        if key not in names:
            close = difflib.get_close_matches(key, names, n=1)
            table = f"[{path}]" if path else "the recipe"
            if not close and not path:
                close = [where for where in _every_key(kind) if where.endswith(f".{key}")]
            mend = f"did you mean {close[0]}?" if close else f"keys here: {', '.join(names)}"
            yield f"{table} has no key {key!r}; mend: {mend}"
        elif is_dataclass(hints[key]) and isinstance(value, Mapping):
            yield from _unknown_keys(value, hints[key], f"{path}.{key}" if path else key)
        elif get_origin(hints[key]) is tuple and is_dataclass(kind := get_args(hints[key])[0]):
            for item in value if isinstance(value, list) else ():
                if isinstance(item, Mapping):
                    yield from _unknown_keys(item, kind, f"{path}.{key}")
