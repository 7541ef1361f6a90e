"""From a path to a model that can be used."""

from __future__ import annotations

from pathlib import Path

from gnomon.errors import ModelError
from gnomon.tasks import Translator, load_translator
from gnomon.training import RunFolder, choose_device


def load(path: str | Path, *, checkpoint: str = "best", device: str = "auto") -> Translator:
    """Load a trained model.

    Args:
        path: a run (its best model by validation), a checkpoint or a model folder.
        checkpoint: of a run: "best" (the average of checkpoints where there is one and it
            validated better than every step), "last", "averaged" or "step-N".
        device: "cpu", "cuda" or "auto" (the GPU where there is one).

    Raises:
        ModelError: no model there, or a damaged one.
        RunError: the run has no such checkpoint.
    """
    return load_translator(model_folder(path, checkpoint), choose_device(device))


def model_folder(path: str | Path, checkpoint: str = "best") -> Path:
    """The model folder that `path` stands for; see `load`."""
    path = Path(path)
    if (path / "config.json").is_file():
        return path
    if (run := RunFolder(path)).exists():
        return run.resolve(checkpoint)
    raise ModelError(
        "a model is a run, a checkpoint or a model folder",
        seen=f"{path}" + ("" if path.exists() else " (does not exist)"),
        mend="name a folder that `gnomon train` wrote, for example runs/small",
    )
