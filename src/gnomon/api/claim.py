"""What makes a run this training's and no other: its recipe, its text, the model it began with."""

from __future__ import annotations

import json
import platform
import sys
import tomllib
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gnomon import __version__
from gnomon.errors import RunError
from gnomon.files import write_atomically
from gnomon.recipes import Recipe, difference, keys_unknown_to, load_recipe, to_toml
from gnomon.recipes.load import migrate
from gnomon.training import RunFolder


def cache_beside(run: Path) -> Path:
    """Where what was prepared for a run is kept: shared by runs beside it on the same text."""
    return run.resolve().parent / ".prepared"


def claim(folder: RunFolder, recipe: Recipe, *, num_ranks: int = 1) -> None:
    """Make the run this recipe's, or find that it already is.

    Args:
        num_ranks: that share a step now; twice the ranks with half the accumulation is the same
            training.

    Raises:
        RunError: it holds a training of another recipe, or no recipe at all.
    """
    if folder.state() is None:
        # Nothing was trained here yet, so there is nothing to protect: an attempt that failed on
        # its text must not keep the next one away.
        folder.manifest_path.unlink(missing_ok=True)
        write_atomically(folder.recipe_path, to_toml(recipe))
        return
    if not folder.recipe_path.exists():
        raise RunError("a run must hold its recipe", seen=f"{folder.path} has no recipe.toml")
    began_with = read_run_recipe(folder)
    # These train nothing, or nothing else.
    began_with = replace(began_with, doctor=recipe.doctor, distributed=recipe.distributed)
    before = began_with.training.accumulate * _num_ranks(folder)
    if recipe.training.accumulate * num_ranks == before:
        training = replace(began_with.training, accumulate=recipe.training.accumulate)
        began_with = replace(began_with, training=training)
    if "int8" not in (began_with.memory.activations, recipe.memory.activations):
        began_with = replace(began_with, memory=recipe.memory)
    if changes := difference(began_with, recipe):
        listing = "\n    ".join(changes)
        raise RunError(
            f"{folder.path} holds a training of another recipe",
            seen=f"differences (there → here):\n    {listing}",
            mend="train elsewhere with --run DIR, or fine-tune this run's model with "
            f"--run DIR --from {folder.path}",
        )


def _num_ranks(folder: RunFolder) -> int:
    """How many ranks a run began with."""
    try:
        return int(json.loads(folder.manifest_path.read_text("utf-8")).get("num_ranks", 1))
    except (OSError, ValueError, TypeError, AttributeError):
        return 1  # a manifest that cannot be read is told where it is compared


def read_run_recipe(folder: RunFolder) -> Recipe:
    """The recipe of a run; what it warned of when the run began is not said again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_recipe(folder.recipe_path)


def began_from(folder: RunFolder) -> str | None:
    """The model that a run was fine-tuned from; None where there was none, or no run yet."""
    try:
        identity = json.loads(folder.manifest_path.read_text("utf-8"))["identity"]
        found = identity.get("--from")
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    return found if isinstance(found, str) else None


def keys_unknown_to_run(folder: RunFolder) -> list[str]:
    """Keys that came to gnomon after the run's recipe was written: their defaults hold for it."""
    written = tomllib.loads(folder.recipe_path.read_text(encoding="utf-8-sig"))
    return keys_unknown_to(migrate(written))


def sign_manifest(
    folder: RunFolder,
    recipe: Recipe,
    made_from: Mapping[str, str | None],
    start_from: str | Path | None,
    num_ranks: int = 1,
) -> None:
    """Write what it takes to reproduce the run's numbers, or compare it with what began the run.

    Args:
        made_from: by name, hashes of the run's text and vocabulary; see `Job.identity`.
        start_from: the model that it began with, if any.
        num_ranks: that share its steps.

    Raises:
        RunError: the text or its vocabulary is not what the run began with, or the model is not.
    """
    identity = {
        **made_from,
        "--from": None if start_from is None else str(Path(start_from).resolve()),
    }
    if folder.state() is None:
        manifest = {
            "format_version": 1,
            "gnomon": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "platform": platform.platform(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "seed": recipe.training.seed,
            "identity": identity,
            "command": sys.argv,
            **({"num_ranks": num_ranks} if num_ranks > 1 else {}),
        }
        write_atomically(folder.manifest_path, json.dumps(manifest, indent=2) + "\n")
        return
    began_with = _identity_in(folder, identity)
    if start_from is None:
        identity["--from"] = began_with["--from"]  # the checkpoints hold all that came of it
    if changed := [name for name, value in identity.items() if value != began_with[name]]:
        raise RunError(
            "a run continues with what it began with",
            seen=f"{folder.path} began with other {', '.join(changed)}",
            mend="restore it, or train elsewhere with --run DIR; --from "
            f"{folder.path} fine-tunes this run's model on the new text",
        )


def _identity_in(folder: RunFolder, names: Collection[str]) -> dict[str, Any]:
    try:
        identity: dict[str, Any] = json.loads(folder.manifest_path.read_text("utf-8"))["identity"]
        return {name: identity[name] for name in names}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            "a run's manifest must be readable",
            seen=f"{folder.manifest_path}: {error!r}",
            mend="restore it from a backup, or train elsewhere with --run DIR",
        ) from error
