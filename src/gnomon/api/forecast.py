"""What a training will cost, before it is begun: its parts, put together and tried out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from gnomon.api.claim import cache_beside
from gnomon.api.jobs import job_of
from gnomon.api.load import model_folder
from gnomon.api.train import Say, run_path, with_network
from gnomon.recipes import Recipe
from gnomon.training import RunFolder
from gnomon.training.forecast import Forecast, foresee
from gnomon.training.rehearsal import Rehearsal


def forecast(
    recipe: Recipe,
    *,
    run: str | Path | None = None,
    start_from: str | Path | None = None,
    say: Say = lambda message: None,
    seconds: float = 5.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Forecast:
    """Parameters, operations, memory and time of a recipe's training on this machine.

    Writes nothing: text that is not prepared yet is prepared in a temporary folder.

    Args:
        recipe: see `read_recipe`.
        run, start_from: see `train`.
        say: told what is being done.
        seconds: to spend on running batches, about.
        clock: seconds; another than the wall's for measurements on a busy machine.

    Raises:
        RecipeError, DataError, ModelError: the recipe, text or model cannot be used.
    """
    with rehearsed(recipe, run=run, start_from=start_from, say=say, clock=clock) as rehearsal:
        return foresee(rehearsal, recipe.training, seconds=seconds)


@contextmanager
def rehearsed(
    recipe: Recipe,
    *,
    run: str | Path | None,
    start_from: str | Path | None,
    say: Say,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Rehearsal]:
    """The parts of a recipe's training, as they are before its first step."""
    folder = run_path(recipe, run)
    recipe = with_network(recipe, RunFolder(folder), start_from, say)
    with TemporaryDirectory(prefix="gnomon-rehearsal-") as scratch:
        say("reading the text (what `gnomon prepare` or a run has made of it is used again)")
        _link(cache_beside(folder), Path(scratch))
        job = job_of(recipe, lambda message: None)
        job.prepare(Path(scratch), [], None if start_from is None else model_folder(start_from))
        torch.manual_seed(recipe.training.seed)
        yield Rehearsal(
            job.task,
            training=recipe.training,
            objective=recipe.objective,
            optimizer=recipe.optimizer,
            averaging=recipe.averaging,
            memory=recipe.memory,
            clock=clock,
        )


def _link(prepared: Path, scratch: Path) -> None:
    """What is prepared already is read where it lies; what is not goes to the scratch folder."""
    if prepared.is_dir():
        for entry in prepared.iterdir():
            if not entry.name.startswith("."):  # locks, and what is being built
                (scratch / entry.name).symlink_to(entry)
