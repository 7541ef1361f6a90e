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
    folder = run_path(recipe, run)
    recipe = with_network(recipe, RunFolder(folder), start_from, say)
    with scratch_beside(folder, say) as cache:
        rehearsal = put_together(recipe, cache, start_from, clock)
        return foresee(rehearsal, recipe.training, seconds=seconds)


@contextmanager
def scratch_beside(run: Path, say: Say) -> Iterator[Path]:
    """A temporary folder in which text is prepared; what is prepared for the run already is used.

    It is read where it lies, and nothing is written there.
    """
    say("reading the text (what `gnomon prepare` or a run has made of it is used again)")
    prepared = cache_beside(run)
    with TemporaryDirectory(prefix="gnomon-rehearsal-") as name:
        for entry in prepared.iterdir() if prepared.is_dir() else ():
            if not entry.name.startswith("."):  # locks, and what is being built
                (Path(name) / entry.name).symlink_to(entry)
        yield Path(name)


def put_together(
    recipe: Recipe,
    cache: Path,
    start_from: str | Path | None,
    clock: Callable[[], float] = time.perf_counter,
) -> Rehearsal:
    """The parts of a recipe's training, as they are before its first step.

    Args:
        cache: where its text is prepared, or will be.
    """
    job = job_of(recipe, lambda message: None)
    job.prepare(cache, [], None if start_from is None else model_folder(start_from))
    torch.manual_seed(recipe.training.seed)
    return Rehearsal(
        job.task,
        training=recipe.training,
        objective=recipe.objective,
        optimizer=recipe.optimizer,
        averaging=recipe.averaging,
        memory=recipe.memory,
        clock=clock,
    )
