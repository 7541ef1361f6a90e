"""A model on disk: `config.json` and `model.safetensors` in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from gnomon.errors import ModelError
from gnomon.model.config import TransformerConfig
from gnomon.model.transformer import Transformer

Table = TypeVar("Table")

FORMAT_VERSION = 1
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
CARD_FILE = "README.md"  # for people; its scores come and go, so that no checksum covers it
SCORES_HEADING = "\n## Scores\n"
"""Ends what a card says of the model itself."""


def save_model(model: Transformer, folder: Path) -> None:
    """Write `model`'s configuration and weights into `folder`, each shared table once.

    The files are written plainly: give a folder from `gnomon.files.atomic_folder` where readers
    must never see half of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_config(model.config, folder)
    write_weights(model.state_dict(), folder / WEIGHTS_FILE)


def write_config(
    config: TransformerConfig, folder: Path, more: Mapping[str, Any] | None = None
) -> None:
    """Write the `config.json` of a model folder.

    Args:
        more: keys beside the model's own, such as the task.
    """
    whole = {"format_version": FORMAT_VERSION, "model": asdict(config), **(more or {})}
    (folder / CONFIG_FILE).write_text(
        json.dumps(whole, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def load_model(folder: Path, device: torch.device | str = "cpu") -> Transformer:
    """The model that `save_model` wrote, in evaluation mode and in the dtype it was saved in.

    Raises:
        ModelError: no model there, a newer format, unknown keys, or weights that do not fit.
    """
    model = without_weights(
        read_config(folder), count_tensors(folder / WEIGHTS_FILE), folder / CONFIG_FILE
    )
    fill(model, folder, device)
    return model


def without_weights(config: TransformerConfig, num_tensors: int, place: object) -> Transformer:
    """A model on the meta device, to be given its weights.

    Args:
        num_tensors: that there are to fill it. A layer takes more than one, so that a slip of the
            pen in a number of layers is told before they are built, which would take hours.
        place: how messages name the file with the configuration.

    Raises:
        ModelError: more layers than weights, or sizes that no tensor has.
    """
    stacks = {
        "num_encoder_layers": config.num_encoder_layers if config.has_encoder() else 0,
        "num_decoder_layers": config.num_decoder_layers if config.has_decoder() else 0,
    }
    for name, layers in stacks.items():
        if layers > num_tensors:
            raise ModelError(
                f"the weights must be those that {place} describes",
                seen=f"{name} = {layers:,}, but {num_tensors:,} tensors in all",
                mend="use the files of one and the same model",
            )
    try:
        with torch.device("meta"):
            return Transformer(config)
    except (RuntimeError, OverflowError, TypeError) as error:
        raise ModelError(
            f"{place} must describe a model whose tensors can be",
            seen=str(error).partition("\n")[0],
            mend="use the files of one and the same model",
        ) from error


def fill(model: nn.Module, folder: Path, device: torch.device | str = "cpu") -> None:
    """Give a module on the meta device the weights of a model folder; then it is in eval mode.

    Raises:
        ModelError: the weights are not those of this module.
    """
    expected = model.state_dict()
    weights = read_weights(folder / WEIGHTS_FILE, str(device))
    wrong = [
        f"{name}: config {shape_of(expected, name)}, file {shape_of(weights, name)}"
        for name in sorted(expected.keys() | weights.keys())
        if shape_of(expected, name) != shape_of(weights, name)
    ]
    if wrong:
        raise ModelError(
            f"{folder} holds weights that do not fit its {CONFIG_FILE}.",
            seen="\n        ".join(wrong[:10]),
            mend="use the two files of one and the same model.",
        )
    model.load_state_dict(weights, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    model.eval()


def read_config(folder: Path) -> TransformerConfig:
    """The configuration in a model folder; raises `ModelError` when it cannot be used."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise ModelError(
            f"{folder} is not a model folder: it has no {CONFIG_FILE}.",
            mend="name a folder that training, export or save_model wrote.",
        )
    try:
        written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = written["format_version"]
        if version != FORMAT_VERSION:
            raise ModelError(
                f"{path} has a format this gnomon does not read.",
                seen=f"format_version {version}, known {FORMAT_VERSION}",
                mend="update gnomon, or save the model again with this version.",
            )
        config = TypeAdapter(TransformerConfig).validate_python(written["model"])
        if unknown := unknown_keys(written["model"], asdict(config)):
            raise _unknown(path, unknown)
        return config
    except (ValidationError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{path} is damaged.", seen=error, mend="take it from a backup."
        ) from error


def read_json(path: Path) -> Any:
    """A JSON file; raises `ModelError` where it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read", seen=error) from error


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file of keys and values; raises `ModelError` where it is none."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise ModelError(f"{path} must hold one object", seen=type(found).__name__)
    return found


def read_table(kind: type[Table], written: Any) -> Table:
    """A table of a `config.json` as the config dataclass that it is.

    Raises:
        ValueError: a value of another type, an unknown key, or a broken rule.
    """
    found = TypeAdapter(kind).validate_python(written)
    if unknown := unknown_keys(written, asdict(found)):  # type: ignore[call-overload]
        raise ValueError(f"{kind.__name__} has no key {', '.join(unknown)}")
    problems: list[str] = getattr(found, "problems", list)()
    if problems:
        raise ValueError("; ".join(problems))
    return found


def refuse_unknown_keys(folder: Path, written: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise `ModelError` for keys of a `config.json` that are none of its task's.

    A slip of the pen would otherwise be a default in silence.
    """
    if unknown := sorted(written.keys() - {"format_version", "task", *known}):
        raise _unknown(folder / CONFIG_FILE, unknown)


def _unknown(path: Path, keys: Iterable[str]) -> ModelError:
    return ModelError(
        f"{path} has keys that this gnomon does not know.",
        seen=", ".join(keys),
        mend="update gnomon, or remove them if they are slips of the pen.",
    )


def unknown_keys(written: dict[str, Any], known: dict[str, Any]) -> list[str]:
    """Dotted keys of `written` that `known` has not."""
    found = [key for key in written if key not in known]
    for key, value in written.items():
        if isinstance(value, dict) and isinstance(known.get(key), dict):
            found += [f"{key}.{inner}" for inner in unknown_keys(value, known[key])]
    return found


def write_weights(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write a safetensors file that other programs take for PyTorch weights, too."""
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, path, metadata={"format": "pt"})


def read_weights(path: Path, device: str) -> dict[str, torch.Tensor]:
    """All tensors in a safetensors file."""
    try:
        with safe_open(path, framework="pt", device=device) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, error) from error


def count_tensors(path: Path) -> int:
    """How many tensors a safetensors file holds; none of them is read."""
    try:
        with safe_open(path, framework="pt") as file:
            return len(file.keys())
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ModelError:
    return ModelError(
        f"{path} cannot be read.", seen=error, mend="take it from a backup, or save it again."
    )


def shape_of(tensors: dict[str, torch.Tensor], name: str) -> tuple[int, ...] | str:
    """Shape of the tensor called `name`, or that there is none."""
    return tuple(tensors[name].shape) if name in tensors else "absent"
