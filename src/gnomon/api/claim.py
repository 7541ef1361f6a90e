"""What makes a run this training's and no other: its recipe, its text, the model it began with."""

from __future__ import annotations

import json
import platform
import sys
import tomllib
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from gnomon import __version__
from gnomon.errors import RecipeError, RunError
from gnomon.files import write_atomically
from gnomon.model import Transformer, TransformerConfig
from gnomon.recipes import Recipe, difference, flatten, keys_unknown_to, load_recipe, to_toml
from gnomon.recipes.load import migrate
from gnomon.tasks import Preparation, Translator
from gnomon.text import TokenizerPair
from gnomon.training import RunFolder


def cache_beside(run: Path) -> Path:
    """Where what was prepared for a run is kept: shared by runs beside it on the same text."""
    return run.resolve().parent / ".prepared"


def claim(folder: RunFolder, recipe: Recipe) -> None:
    """Make the run this recipe's, or find that it already is.

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
    began_with = replace(read_run_recipe(folder), doctor=recipe.doctor)  # trains nothing
    if changes := difference(began_with, recipe):
        listing = "\n    ".join(changes)
        raise RunError(
            f"{folder.path} holds a training of another recipe",
            seen=f"differences (there → here):\n    {listing}",
            mend="train elsewhere with --run DIR, or fine-tune this run's model with "
            f"--run DIR --from {folder.path}",
        )


def read_run_recipe(folder: RunFolder) -> Recipe:
    """The recipe of a run; what it warned of when the run began is not said again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_recipe(folder.recipe_path)


def keys_unknown_to_run(folder: RunFolder) -> list[str]:
    """Keys that came to gnomon after the run's recipe was written: their defaults hold for it."""
    written = tomllib.loads(folder.recipe_path.read_text(encoding="utf-8-sig"))
    return keys_unknown_to(migrate(written))


def sign_manifest(
    folder: RunFolder, recipe: Recipe, preparation: Preparation, start_from: str | Path | None
) -> None:
    """Write what it takes to reproduce the run's numbers, or compare it with what began the run.

    Raises:
        RunError: the text or its vocabulary is not what the run began with, or the model is not.
    """
    corpora = preparation.corpora
    identity = {
        "training text": corpora.train.fingerprint,
        "validation text": None if corpora.valid is None else corpora.valid.fingerprint,
        "vocabulary": preparation.tokenizers.fingerprint,
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
        }
        write_atomically(folder.manifest_path, json.dumps(manifest, indent=2) + "\n")
        return
    began_with = _identity_in(folder)
    if start_from is None:
        identity["--from"] = began_with["--from"]  # the checkpoints hold all that came of it
    if changed := [name for name, value in identity.items() if value != began_with[name]]:
        raise RunError(
            "a run continues with what it began with",
            seen=f"{folder.path} began with other {', '.join(changed)}",
            mend="restore it, or train elsewhere with --run DIR; --from "
            f"{folder.path} fine-tunes this run's model on the new text",
        )


def first_model(recipe: Recipe, tokenizers: TokenizerPair, base: Translator | None) -> Transformer:
    """The network of the recipe, with fresh weights or those of `base`.

    Dropout of elements and layers is the recipe's own also when fine-tuning.

    Raises:
        RecipeError: `base` is not the network that the recipe describes.
    """
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    target_size = None if tokenizers.joint else sizes[1]
    config = replace(recipe.model, vocab_size=sizes[0], target_vocab_size=target_size)
    if base is not None:
        _refuse_other_network(config, base.model.config)
    model = Transformer(config)
    if base is not None:
        model.load_state_dict(base.model.state_dict())
    return model


def _refuse_other_network(wanted: TransformerConfig, given: TransformerConfig) -> None:
    there, here = flatten(asdict(given)), flatten(asdict(wanted))
    changes = [
        f"model.{key}: {there[key]!r} → {here[key]!r}"
        for key in here
        if here[key] != there[key] and not key.endswith(("dropout", "layer_drop"))
    ]
    if changes:
        listing = "\n    ".join(changes)
        raise RecipeError(
            "fine-tuning keeps the network it starts from",
            seen=f"the recipe's [model] differs (model → recipe):\n    {listing}",
            mend="use the recipe that the model was trained with (recipe.toml in its run), or set "
            "these keys to the model's values with --set",
        )


def _identity_in(folder: RunFolder) -> dict[str, Any]:
    try:
        identity: dict[str, Any] = json.loads(folder.manifest_path.read_text("utf-8"))["identity"]
        return {name: identity[name] for name in _IDENTITY}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            "a run's manifest must be readable",
            seen=f"{folder.manifest_path}: {error!r}",
            mend="restore it from a backup, or train elsewhere with --run DIR",
        ) from error


_IDENTITY = ("training text", "validation text", "vocabulary", "--from")
