"""From a path to a model that can be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from gnomon import tasks
from gnomon.decoding import Combination
from gnomon.errors import GnomonError, ModelError, RecipeError
from gnomon.tasks import ensemble as together
from gnomon.tasks import load_classifier, load_encoder, load_language_model, load_translator
from gnomon.training import RunFolder, check_weights, choose_device

LOADERS: dict[str, Callable[[Path, torch.device], Any]] = {
    "translation": load_translator,
    "classification": load_classifier,
    "language_model": load_language_model,
    "encoder": load_encoder,
}

VERBS = {
    "translation": "translate",
    "classification": "classify",
    "language_model": "generate",
    "encoder": "embed",
}
"""The verb that uses a model of each task."""


def load(
    path: str | Path,
    *,
    checkpoint: str = "best",
    device: str = "auto",
    ensemble: Sequence[str | Path] = (),
    combination: Combination = "mean",
) -> Any:
    """Load a model: a `Translator`, `Classifier`, `LanguageModel` or `Encoder`.

    Args:
        path: a run (its best model by validation), a checkpoint or a model folder.
        checkpoint: of a run: "best" (the average of checkpoints where there is one and it
            validated better than every step), "last", "averaged" or "step-N".
        device: "cpu", "cuda" or "auto" (the GPU where there is one).
        ensemble: of a translator, further models with the same vocabulary that decode along (of
            runs, the same kind of checkpoint).
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
    task = task_of(folders[0])
    if ensemble and task != "translation":
        raise RecipeError("several models decode together only to translate", seen=f"task {task}")
    found = [LOADERS[task](folder, choose_device(device)) for folder in folders]
    return together(found, combination) if ensemble else found[0]


def load_for(task: str, path: str | Path, *, checkpoint: str = "best", **options: Any) -> Any:
    """`load` for what one task alone can do.

    Args:
        options: of `load`.

    Raises:
        ModelError: the model is of another task, naming the verb that uses it.
    """
    check_task(task, path, checkpoint=checkpoint)
    return load(path, checkpoint=checkpoint, **options)


def check_task(task: str, path: str | Path, *, checkpoint: str = "best") -> None:
    """Raise `ModelError` for a model of another task, naming the verb that uses it."""
    found = task_of(model_folder(path, checkpoint))
    if found != task:
        raise ModelError(
            f"this needs a model of the task {task}",
            seen=f"{path}: {found}",
            mend=f"gnomon {VERBS[found]} {path}",
        )


def is_of(path: str | Path, task: str, checkpoint: str = "best") -> bool:
    """Whether the model at `path` is of this task; what is no model is told where it is used."""
    try:
        return task_of(model_folder(path, checkpoint)) == task
    except GnomonError:
        return False


def task_of(folder: Path) -> str:
    """What a model folder's model is for.

    Raises:
        ModelError: its config cannot be read or names no task that gnomon knows.
    """
    task = tasks.task_of(folder)
    if task not in LOADERS:
        raise ModelError(
            f"a model that can be used must be of a task: {', '.join(LOADERS)}",
            seen=f"{folder}: {task or 'no task named in config.json'}",
            mend="name a run or a model folder that training wrote",
        )
    return task


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
