"""From a model folder to one whose positions are others, or reach further."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from torch import Tensor

from gnomon.api.load import model_folder
from gnomon.errors import ModelError
from gnomon.files import atomic_folder
from gnomon.model import TransformerConfig
from gnomon.model.io import (
    CARD_FILE,
    CONFIG_FILE,
    SCORES_HEADING,
    WEIGHTS_FILE,
    read_config,
    read_weights,
    write_weights,
)
from gnomon.model.surgery import Operated, replace_by_rope, resize_table, stretch_rope
from gnomon.training import check_weights
from gnomon.training.averaging import copy_all_but_weights

Method = Literal["rope", "linear", "ntk", "dynamic_ntk", "yarn", "resize"]
# Keys of config.json: what training texts reached, and where a task cuts texts.
_LONGEST = ("longest_source", "longest_target", "context")
_CUT_AT = "max_length"
_READS = {
    "rope": ("theta",),
    "linear": ("length", "factor", "trained_length"),
    "ntk": ("length", "factor", "trained_length"),
    "dynamic_ntk": ("factor", "trained_length"),
    "yarn": ("length", "factor", "trained_length"),
    "resize": ("length",),
}


@dataclass(frozen=True)
class Extension:
    """What `extend` wrote.

    Attributes:
        folder: the new model folder.
        changes: what is different in it, one sentence each.
        settings: the changed keys of the recipe, for `gnomon train --from` (as for `--set`).
        needs_training: whether the model is of no use before it is fine-tuned.
    """

    folder: Path
    changes: list[str]
    settings: list[str]
    needs_training: bool


def extend(
    model: str | Path,
    output: str | Path,
    *,
    method: Method,
    length: int | None = None,
    factor: float | None = None,
    trained_length: int | None = None,
    theta: float | None = None,
    checkpoint: str = "best",
) -> Extension:
    """Write a model folder whose positions are replaced, stretched or resized.

    Args:
        model: a run, a checkpoint or a model folder, of any task.
        output: the folder to write, which must not exist yet.
        method: "rope" replaces whatever positions there are by rotary ones; "linear", "ntk",
            "dynamic_ntk" and "yarn" stretch rotary ones; "resize" interpolates a learned table.
        length: tokens that the model should reach (linear, ntk, yarn, resize).
        factor: in its place, how many times the trained length (linear, ntk, yarn); of
            dynamic_ntk, how fast it grows past that (1, the default, as in the paper).
        trained_length: tokens of the longest texts that it was trained with; None: what the
            folder says.
        theta: base of the wavelengths of new rotary positions; None: 10,000.
        checkpoint: of a run, which; see `load`.

    Raises:
        ModelError: positions that this method is not for, numbers that are missing, have no
            effect or make no sense, no model there, or a folder that is.
    """
    given = {"length": length, "factor": factor, "trained_length": trained_length, "theta": theta}
    _refuse_unread(method, given)
    source, destination = model_folder(model, checkpoint), Path(output)
    if destination.exists():
        raise ModelError(
            "A model is not written over what is there.",
            seen=destination,
            mend="name a folder that does not exist yet, or remove it.",
        )
    written = json.loads((source / CONFIG_FILE).read_text(encoding="utf-8"))
    if "task" in written and "model" not in written:
        raise ModelError(
            "Only a Transformer has positions.",
            seen=f"{source} holds {', '.join(set(written) & {'bilstm'}) or 'none'}",
            mend="name a run or folder of a Transformer.",
        )
    config = read_config(source)
    check_weights(source)
    weights = read_weights(source / WEIGHTS_FILE, "cpu")
    if method == "rope":
        operated = replace_by_rope(config, weights, 10_000.0 if theta is None else theta)
    elif method == "resize":
        if length is None:
            raise ModelError("A new table needs its length.", mend="give the length in tokens.")
        operated = resize_table(config, weights, length)
    else:
        known = trained_length or _trained_length(written, config)
        if factor is None and method == "dynamic_ntk":
            factor = 1.0
        factor = factor or _factor(length, known)
        operated = stretch_rope(config, weights, method, factor, known)
        length = None if method == "dynamic_ntk" else length or round(factor * (known or 0))
    changes = _changes(config, operated)
    for place, table in _tables(written):
        longest = table.get(_CUT_AT)
        if method != "rope" and longest is not None and (length is None or length > longest):
            # Whatever it reads at once is cut there, and its positions now reach further.
            table[_CUT_AT] = length
            changes.append(f"{place}{_CUT_AT}: {longest} → {length or 'any'}")
    written["model"] = asdict(operated.config)
    with atomic_folder(destination) as temporary:
        _write(source, temporary, written, operated.weights, changes)
    return Extension(destination, changes, _settings(config, operated.config), method == "rope")


def _refuse_unread(method: str, given: Mapping[str, Any]) -> None:
    if method not in get_args(Method):
        raise ModelError(
            f"A method is one of {', '.join(get_args(Method))}.", seen=method, mend="name one."
        )
    unread = [name for name, value in given.items() if value is not None]
    unread = [name for name in unread if name not in _READS[method]]
    if unread:
        raise ModelError(
            f"{method} reads {' and '.join(_READS[method])}, nothing else.",
            seen=" and ".join(unread),
            mend="leave out what has no effect.",
        )
    if odd := [name for name, value in given.items() if not _is_positive(value)]:
        raise ModelError(
            "Lengths, factors and theta are positive numbers.",
            seen=", ".join(f"{name} {given[name]}" for name in odd),
            mend="give others, or leave them out.",
        )
    if given["length"] is not None and given["factor"] is not None:
        raise ModelError(
            "Either the length that the model should reach is given or a factor.",
            seen=f"length {given['length']} and factor {given['factor']}",
            mend="leave out one of them.",
        )


def _is_positive(value: Any) -> bool:
    return value is None or (math.isfinite(value) and value > 0)


def _trained_length(written: dict[str, Any], config: TransformerConfig) -> int | None:
    """The longest texts in training as far as the folder knows, in tokens."""
    if config.position.rope.scaling in ("dynamic_ntk", "yarn", "llama3"):
        return config.position.rope.original_length
    lengths = [written.get(key) for key in _LONGEST]
    lengths += [table.get(_CUT_AT) for _, table in _tables(written)]
    return max((length for length in lengths if isinstance(length, int)), default=None)


def _tables(written: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Where a config.json may say at what length texts are cut: a classifier's, an encoder's."""
    encoder = written.get("encoder")
    return [("", written), *([("encoder.", encoder)] if isinstance(encoder, dict) else [])]


def _factor(length: int | None, trained_length: int | None) -> float:
    if length is None or trained_length is None:
        missing = "length" if length is None else "trained length"
        raise ModelError(
            "To stretch positions one must know how far: the length that the model should reach "
            "and the length that it was trained with, or a factor.",
            seen=f"no {missing}, and none in the model folder",
            mend=f"give the {missing} in tokens, or the factor.",
        )
    if length <= trained_length:
        raise ModelError(
            "A model is stretched to reach further than it was trained.",
            seen=f"{length} tokens asked for, trained with {trained_length}",
            mend="ask for more, or name the trained length if it was another.",
        )
    return length / trained_length


def _changes(before: TransformerConfig, operated: Operated) -> list[str]:
    """What happened, in sentences."""
    changes = [
        f"{setting.partition('=')[0]}: {old} → {setting.partition('=')[2]}"
        for setting, old in _differences(before, operated.config)
    ]
    changes += [f"weights dropped: {name}" for name in operated.dropped]
    changes += [
        f"weights resized: {name} to {list(operated.weights[name].shape)}"
        for name in operated.resized
    ]
    return changes


def _settings(before: TransformerConfig, after: TransformerConfig) -> list[str]:
    return [setting for setting, _ in _differences(before, after)]


def _differences(before: TransformerConfig, after: TransformerConfig) -> list[tuple[str, object]]:
    """Changed keys as settings, each with its old value."""

    def leaves(tree: Mapping[str, Any], prefix: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in tree.items():
            if isinstance(value, dict):
                found |= leaves(value, f"{prefix}{key}.")
            else:
                found[f"{prefix}{key}"] = value
        return found

    old, new = leaves(asdict(before), "model."), leaves(asdict(after), "model.")
    return [(f"{key}={new[key]}", old[key]) for key in new if new[key] != old[key]]


def _write(
    source: Path,
    folder: Path,
    config: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    changes: Sequence[str],
) -> None:
    """The model folder anew: all that is not the network as it was."""
    copy_all_but_weights(source, folder)
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    write_weights(weights, folder / WEIGHTS_FILE)
    card = folder / CARD_FILE
    if card.is_file():
        # Scores on it are those of the model as it was.
        about = card.read_text(encoding="utf-8").partition(SCORES_HEADING)[0].rstrip()
        listed = "\n".join(f"- {change}" for change in changes)
        card.write_text(
            f"{about}\n\nIts positions were changed by `gnomon extend`:\n\n{listed}\n",
            encoding="utf-8",
        )
