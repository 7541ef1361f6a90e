"""Crash bundles: what it takes to make a failed step again, in one folder without pickle.

bundle.json              the finding, and how the step was run
batch.safetensors        the tensors of the batch
generators.safetensors   states of the random generators before the step
model/                   weights (and configuration) as they were before the step
recipe.toml              of a gnomon run
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.doctor.finding import Finding
from gnomon.errors import DoctorError
from gnomon.files import atomic_folder, json_value

MARKER = "bundle.json"
_FORMAT_VERSION = 1
_BATCH, _GENERATORS, MODEL = "batch.safetensors", "generators.safetensors", "model"


@dataclass(frozen=True)
class Bundle:
    """A bundle as read from its folder.

    Attributes:
        kind: "gnomon" (a gnomon run), "huggingface" (a model that `config.json` describes) or
            "module" (needs its own code to be run again).
        finding: what tripped.
        record: the whole of `bundle.json`.
        batch: tensors of the batch by name.
        generators: states before the step.
    """

    folder: Path
    kind: str
    step: int
    finding: Finding
    record: Mapping[str, Any]
    batch: Mapping[str, Tensor]
    generators: Mapping[str, Tensor]

    @property
    def model(self) -> Path:
        """The folder with the weights."""
        return self.folder / MODEL


def write_bundle(
    run: Path,
    *,
    kind: str,
    step: int,
    finding: Finding,
    batch: Mapping[str, Tensor],
    generators: Mapping[str, Tensor],
    save_model: Callable[[Path], None],
    recipe: Path | None = None,
    **more: Any,
) -> Path:
    """Write `RUN/bundles/step-N/`; it is there whole, or not at all.

    Args:
        save_model: writes weights (and configuration) into an empty folder.
        more: plain values that a replay needs.
    """
    path = run / "bundles" / f"step-{step:08d}"
    with atomic_folder(path) as temporary:
        _save(batch, temporary / _BATCH)
        _save(generators, temporary / _GENERATORS)
        (temporary / MODEL).mkdir()
        save_model(temporary / MODEL)
        if recipe is not None and recipe.is_file():
            shutil.copyfile(recipe, temporary / "recipe.toml")
        record = {
            "format_version": _FORMAT_VERSION,
            "kind": kind,
            "step": step,
            "finding": finding.as_json(),
            "versions": {"gnomon": version("gnomon"), "torch": torch.__version__},
            **more,
        }
        text = json.dumps(json_value(record), indent=2) + "\n"
        (temporary / MARKER).write_text(text, "utf-8")
    return path


def save_weights(module: torch.nn.Module, folder: Path) -> None:
    """Parameters and buffers, each storage once."""
    named: dict[str, Tensor] = dict(module.named_parameters())
    named |= dict(module.named_buffers())
    _save(named, folder / "model.safetensors")


def load_weights(module: torch.nn.Module, folder: Path) -> None:
    """Put back what `save_weights` wrote.

    Raises:
        DoctorError: the module has other parameters.
    """
    named: dict[str, Tensor] = dict(module.named_parameters()) | dict(module.named_buffers())
    kept = _load(folder / "model.safetensors")
    other = sorted(set(named) ^ set(kept))
    other += [n for n in named if n in kept and named[n].shape != kept[n].shape]
    if other:
        raise DoctorError(
            "a bundle is replayed on the module it was written from",
            seen=f"other parameters: {', '.join(other[:3])}",
            mend="build the module with the same settings",
        )
    with torch.no_grad():
        for name, tensor in named.items():
            tensor.copy_(kept[name])


def is_bundle(folder: Path) -> bool:
    """Whether a crash bundle lies there."""
    return (folder / MARKER).is_file()


def read_bundle(folder: Path | str) -> Bundle:
    """Read a bundle.

    Raises:
        DoctorError: it is none, damaged, or of a later gnomon.
    """
    folder = Path(folder)
    try:
        record = json.loads((folder / MARKER).read_text("utf-8"))
        found = int(record["format_version"])
        if found > _FORMAT_VERSION:
            raise DoctorError(
                f"this gnomon reads bundles up to format {_FORMAT_VERSION}",
                seen=f"format {found} in {folder}",
                mend="use the gnomon that wrote it, or a newer one",
            )
        finding = Finding(**{**record["finding"], "where": tuple(record["finding"]["where"])})
        return Bundle(
            folder,
            str(record["kind"]),
            int(record["step"]),
            finding,
            record,
            _load(folder / _BATCH),
            _load(folder / _GENERATORS),
        )
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DoctorError(
            "a crash bundle is a folder with bundle.json, batch, generators and model",
            seen=f"{folder}: {error}",
            mend="name a folder under RUN/bundles/",
        ) from error


def _save(tensors: Mapping[str, Tensor], path: Path) -> None:
    save_file({n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()}, path)


def _load(path: Path) -> dict[str, Tensor]:
    return load_file(path)
