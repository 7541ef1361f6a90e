"""From several models to the one whose weights are their mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from gnomon.api.claim import read_run_recipe
from gnomon.api.load import model_folder
from gnomon.errors import ModelError, RunError
from gnomon.files import atomic_folder, sha256_of
from gnomon.training import Average, RunFolder, read_metrics, write_mean, write_record


def average(
    models: Sequence[str | Path],
    *,
    last: int | None = None,
    best: int | None = None,
    output: str | Path | None = None,
) -> Path:
    """Write a model folder whose weights are the mean of several models'.

    Args:
        models: one run, of which `last` or `best` says which checkpoints; or several runs (their
            best), checkpoints or model folders of one network with one vocabulary.
        last: the newest so many checkpoints of the run.
        best: the so many that validated best among the checkpoints that are still there.
        output: the folder to write, which must not exist yet; by default the run's
            `checkpoints/averaged/`, which is replaced.

    Returns:
        The folder written.

    Raises:
        RunError: the run has too few checkpoints, or a training is writing it.
        ModelError: the models differ in more than their weights, or cannot be read.
    """
    run = RunFolder(models[0]) if len(models) == 1 else None
    if run is not None and run.exists():
        folders = _checkpoints_of(run, last, best)
        destination = run.checkpoints.averaged_path if output is None else Path(output)
    else:
        folders = _several(models, last, best)
        run = None
        if output is None:
            raise ModelError(
                "The average of several models needs a folder of its own",
                mend="name one that does not exist yet with --output",
            )
        destination = Path(output)
    if output is not None and destination.exists():
        raise ModelError(
            "An average is not written over what is there",
            seen=destination,
            mend="name a folder that does not exist yet, or remove it",
        )
    # A run that is being written removes old checkpoints; while it is held, nobody writes it.
    with nullcontext() if run is None else run.lock(), atomic_folder(destination) as temporary:
        _refuse_unlike(folders)
        write_mean(folders, temporary)
        names = [folder.name if run is not None else str(folder) for folder in folders]
        write_record(Average(names), temporary)
    return destination


def _checkpoints_of(run: RunFolder, last: int | None, best: int | None) -> list[Path]:
    if (last is None) == (best is None):
        raise RunError(
            "Of a run, either the newest or the best checkpoints are averaged",
            seen="neither is asked for" if last is None else "both are asked for",
            mend="give --last 5 or --best 5",
        )
    steps = run.checkpoints.steps()
    count = last if best is None else best
    if best is not None:
        steps = _ranked(run, steps)
    assert count is not None, "one of the two is given"
    if not 2 <= count <= len(steps):
        raise RunError(
            "An average needs at least 2 checkpoints, and no more than there are",
            seen=f"{count} asked for, {len(steps)} in {run.checkpoints.folder}"
            + ("" if best is None else " with a validation"),
            mend="ask for fewer; training.keep_last and averaging.count say how many a training "
            "keeps",
        )
    chosen = steps[-count:] if best is None else sorted(steps[:count])
    return [run.checkpoints.path(step) for step in chosen]


def _ranked(run: RunFolder, steps: Sequence[int]) -> list[int]:
    """The steps that were validated, best first."""
    training = read_run_recipe(run).training
    values = {
        line["step"]: line["metrics"][training.best_metric]
        for line in (read_metrics(run.metrics_path) if run.metrics_path.is_file() else ())
        if line.get("kind") == "validation" and line["step"] in steps
    }
    sign = 1 if training.best_mode == "min" else -1
    return sorted(values, key=lambda step: (sign * values[step], step))


def _several(models: Sequence[str | Path], last: int | None, best: int | None) -> list[Path]:
    if last is not None or best is not None:
        raise ModelError(
            "--last and --best choose among the checkpoints of one run",
            seen=f"{len(models)} model(s): {', '.join(map(str, models))}",
            mend="name one run, or several models without --last and --best",
        )
    folders = [model_folder(model) for model in models]
    if len(folders) < 2:
        raise ModelError("An average needs at least 2 models", seen=", ".join(map(str, models)))
    return folders


def _refuse_unlike(folders: Sequence[Path]) -> None:
    """Equal shapes do not make one network: heads, norms and words must be the same, too."""
    first = folders[0]
    for other in folders[1:]:
        if _network(first) != _network(other):
            raise ModelError(
                "Only models of one architecture can be averaged.",
                seen=f"the model in config.json differs between {first} and {other}",
                mend="name checkpoints of one training, or models that began as one.",
            )
        if _vocabulary(first) != _vocabulary(other):
            raise ModelError(
                "Only models of one vocabulary can be averaged.",
                seen=f"the tokenizers of {first} and {other} differ",
                mend="name checkpoints of one training, or models that began as one.",
            )


def _network(folder: Path) -> object:
    """The configuration without what only training reads."""
    path = folder / "config.json"
    try:
        model = json.loads(path.read_text(encoding="utf-8"))["model"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} cannot be read.", seen=repr(error)) from error
    return _without_dropout(model)


def _without_dropout(tree: object) -> object:
    if not isinstance(tree, dict):
        return tree
    return {
        key: _without_dropout(value)
        for key, value in tree.items()
        if not key.endswith(("dropout", "layer_drop"))
    }


def _vocabulary(folder: Path) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in folder.glob("tokenizer*.json")}
