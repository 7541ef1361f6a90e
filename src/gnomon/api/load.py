"""From a path to a model that can be used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnomon.decoding import Combination
from gnomon.errors import ModelError, RecipeError
from gnomon.tasks import Translator, load_translator
from gnomon.tasks import ensemble as together
from gnomon.training import RunFolder, check_weights, choose_device


def load(
    path: str | Path,
    *,
    checkpoint: str = "best",
    device: str = "auto",
    ensemble: Sequence[str | Path] = (),
    combination: Combination = "mean",
) -> Translator:
    """Load a trained model, or several that decode together.

    Args:
        path: a run (its best model by validation), a checkpoint or a model folder.
        checkpoint: of a run: "best" (the average of checkpoints where there is one and it
            validated better than every step), "last", "averaged" or "step-N".
        device: "cpu", "cuda" or "auto" (the GPU where there is one).
        ensemble: further models with the same vocabulary (of runs, the same kind of checkpoint).
        combination: "mean" of the models' probabilities, or "log_mean", of their logarithms.

    Raises:
        ModelError: no model there, a damaged one (a checkpoint's weights are compared with their
            checksum, 0.6 s a gigabyte), or one with another vocabulary.
        RecipeError: no such combination.
        RunError: the run has no such checkpoint.
    """
    if combination not in ("mean", "log_mean"):
        raise RecipeError("combination is mean or log_mean", seen=combination)
    if combination != "mean" and not ensemble:
        raise RecipeError(
            "several models are combined, here is one",
            seen=f"combination {combination}",
            mend="name the others: ensemble in Python, --with on the command line",
        )
    folders = [model_folder(each, checkpoint) for each in (path, *ensemble)]
    for folder in folders:
        check_weights(folder)
    found = [load_translator(folder, choose_device(device)) for folder in folders]
    return together(found, combination)


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


def run_of(folder: Path) -> RunFolder | None:
    """The run whose checkpoint `folder` is, if it is one."""
    run = RunFolder(folder.resolve().parent.parent)
    return run if run.recipe_path.is_file() and folder.parent.name == "checkpoints" else None
