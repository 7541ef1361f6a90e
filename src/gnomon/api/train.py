"""From a recipe to a trained run: prepare the text, build the model, drive the loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gnomon.api.claim import began_from, cache_beside, claim, read_run_recipe, sign_manifest
from gnomon.api.jobs import Job, job_of
from gnomon.api.jobs.base import adopt, with_network_of
from gnomon.api.jobs.translation import prepare as prepare_text
from gnomon.api.load import model_folder
from gnomon.doctor import Report
from gnomon.doctor.examine import choose
from gnomon.doctor.preflight import refuse
from gnomon.errors import DataError, RecipeError, RunError
from gnomon.files import json_value, write_atomically
from gnomon.recipes import (
    ClassificationRecipe,
    LanguageModelRecipe,
    Recipe,
    ReplacedTokenRecipe,
    TranslationRecipe,
    load_recipe,
    recipe_kind,
)
from gnomon.recipes.tasks import RECIPES
from gnomon.tasks import Preparation
from gnomon.text import DataConfig
from gnomon.text.sources import SOURCE_TABLES
from gnomon.training import (
    Listener,
    Outcome,
    RunFolder,
    TensorBoardLog,
    Trainer,
    choose_device,
    joined,
    own_rank,
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Training:
    """A training that ended: where it is and how it went.

    Attributes:
        rank: of this process among those that trained together; 0 has written the run.
    """

    run: Path
    recipe: Recipe
    outcome: Outcome
    rank: int = 0


def read_recipe(
    recipe: str | Path | Recipe,
    *,
    source: str | Path | None = None,
    target: str | Path | None = None,
    data: str | Path | None = None,
    valid_source: str | Path | None = None,
    valid_target: str | Path | None = None,
    valid_data: str | Path | None = None,
    overrides: Iterable[str] = (),
) -> Recipe:
    """A checked recipe with the caller's own files in place of its training text.

    Args:
        recipe: a preset's name, a TOML file, or a recipe.
        source, target: of a translator, two files whose line i belong together.
        data: in place of the two, one file of pairs: TSV, JSON lines or Parquet; or the labelled
            texts of a classifier.
        valid_source, valid_target, valid_data: the same for validation text.
        overrides: `table.key=value`, as `--set` takes them.

    Raises:
        RecipeError: naming every problem at once.
        DataError: a path is not valid UTF-8.
    """
    changes: dict[str, Any] = {}
    if foreign := [
        ascii(str(file)) for file in (source, target, data) if file and not _is_text(file)
    ]:
        raise DataError(
            "paths of text files must be valid UTF-8",
            seen=", ".join(foreign),
            mend="rename the file, or name a link to it",
        )
    kind = RECIPES[recipe.task] if isinstance(recipe, Recipe) else recipe_kind(recipe)
    if kind is not TranslationRecipe:
        if any((source, target, valid_source, valid_target)):
            raise DataError(
                "two files side by side are for translators",
                seen=f"task = {kind().task!r}",  # type: ignore[call-arg]
                mend="give --data FILE (and --valid-data FILE)",
            )
        changes = {} if data is None else {"data.train": str(data), "data.valid": None}
        if data is not None:
            changes["data.test"] = None
        if valid_data is not None:
            changes["data.valid"] = str(valid_data)
    elif source or target or data:
        # Validation and test text belong to the training text they were given with.
        changes = {f"data.{key}": None for key in DataConfig.paths}
        changes |= {f"data.{table}": [] for table in SOURCE_TABLES}
        changes |= {"data.source": source and str(source), "data.target": target and str(target)}
        changes |= {"data.pairs": data and str(data)}
    if kind is TranslationRecipe and (valid_source or valid_target or valid_data):
        changes |= {"data.valid_source": valid_source and str(valid_source), "data.valid": []}
        changes |= {"data.valid_target": valid_target and str(valid_target)}
        changes |= {"data.valid_pairs": valid_data and str(valid_data)}
    if isinstance(recipe, Recipe):
        if changes or list(overrides):
            raise RecipeError("files and overrides go with a recipe's name or TOML file")
        return recipe
    return load_recipe(recipe, overrides, changes)


def prepare(
    recipe: Recipe, *, run: str | Path | None = None, say: Say = print
) -> Preparation | None:
    """Clean the text, train the tokenizer and encode the corpus as `train` would.

    Returns:
        Of a translator's recipe what was made; other tasks say what they found and keep the
        vocabulary.
    """
    cache = cache_beside(run_path(recipe, run))
    if isinstance(recipe, TranslationRecipe):
        return prepare_text(recipe, cache, None, say)
    job_of(recipe, say).prepare(cache, [], None)
    return None


def train(
    recipe: str | Path | Recipe,
    *,
    source: str | Path | None = None,
    target: str | Path | None = None,
    data: str | Path | None = None,
    valid_source: str | Path | None = None,
    valid_target: str | Path | None = None,
    valid_data: str | Path | None = None,
    overrides: Iterable[str] = (),
    run: str | Path | None = None,
    start_from: str | Path | None = None,
    listeners: Sequence[Listener] = (),
    say: Say = lambda message: None,
    before_start: Callable[[Any], None] = lambda task: None,
    check: bool = True,
    accept: Collection[str] = (),
    examined: Callable[[Report], None] = lambda report: None,
) -> Training:
    """Train a recipe into a run folder, or continue the training found there.

    Started by torchrun, every rank calls this alike; rank 0 writes the run and is the only one
    whose listeners hear anything.

    Args:
        recipe, source, target, data, valid_…, overrides: see `read_recipe`.
        run: the folder to write; default runs/NAME with the recipe's name.
        start_from: a model whose weights and tokenizer to begin with (fine-tuning); step count
            and schedule begin anew.
        listeners: told of steps, validations and checkpoints.
        say: told what is being done before the first step.
        before_start: called with the task before a new training is examined.
        check: whether the doctor examines a new training before its first step (about a second;
            the report is kept in the run, `doctor/preflight.json`).
        accept: codes of checks that may fail; see `gnomon.doctor.preflight`.
        examined: is told the doctor's report before a failed check stops the training.

    Returns:
        The run, its recipe and how training ended. A run that is already finished is returned
        as it is.

    Raises:
        RecipeError, DataError: the recipe or the text cannot be used.
        RunError: the run is locked, or began with another recipe, text or model; its folder holds
            something else.
        CheckError: a check of the doctor fails.
        TrainingStopped: NaN or infinity, or the disk is full.
    """
    recipe = read_recipe(
        recipe,
        source=source,
        target=target,
        data=data,
        valid_source=valid_source,
        valid_target=valid_target,
        valid_data=valid_data,
        overrides=overrides,
    )
    folder = RunFolder(run_path(recipe, run))
    warn, rank = say, own_rank()
    if rank:
        say = _say_nothing  # rank 0 has said it
    recipe = with_network(recipe, folder, start_from, say)
    # Slips are told before the text is read, which may take an hour.
    device = choose_device(recipe.training.device)
    choose(only=accept)
    with ExitStack() as leaving:
        if rank == 0:
            folder.refuse_foreign()
            leaving.enter_context(folder.lock())
        world = leaving.enter_context(joined(recipe.distributed, device, folder.path, warn=warn))
        with world.first_goes_first():
            if world.is_first:
                claim(folder, recipe, num_ranks=world.size)
            continued = folder.state() is not None
            job = job_of(recipe, say)
            job.prepare(
                cache_beside(folder.path),
                folder.checkpoints.newest() if continued else [],
                None if start_from is None or continued else model_folder(start_from),
            )
            if world.is_first:
                sign_manifest(folder, recipe, job.identity(), start_from, world.size)
        torch.manual_seed(recipe.training.seed)
        task = job.task
        trainer = Trainer(
            task,
            folder,
            training=recipe.training,
            objective=recipe.objective,
            optimizer=recipe.optimizer,
            schedule=recipe.schedule.build(
                d_model=recipe.model.d_model, max_steps=recipe.training.max_steps
            ),
            averaging=recipe.averaging,
            memory=recipe.memory,
            distributed=recipe.distributed,
            world=world,
            validate=job.validate,
            listeners=[TensorBoardLog(folder.tensorboard_path), *listeners],
            monitors=job.monitors(folder) if world.is_first else None,
        )
        if not continued and world.is_first:
            before_start(task)
            if check:
                _examine(job, folder, recipe, accept, examined)
        outcome = trainer.fit()
    return Training(folder.path, recipe, outcome, world.rank)


def _say_nothing(message: str) -> None:
    pass


def with_network(
    recipe: Recipe, folder: RunFolder, start_from: str | Path | None, say: Say
) -> Recipe:
    """The recipe of a model of one stack with the network that it is, or was, fine-tuned from."""
    if not isinstance(recipe, ClassificationRecipe | LanguageModelRecipe | ReplacedTokenRecipe):
        return recipe
    if start_from is None and isinstance(recipe, ReplacedTokenRecipe):
        start_from = recipe.replacement.generator
    if start_from is not None:
        say(
            f"the network is that of {start_from}: of [model] dropout and layer_drop alone are read"
        )
        return adopt(recipe, model_folder(start_from))
    if folder.recipe_path.is_file() and began_from(folder) is not None:
        return with_network_of(recipe, read_run_recipe(folder))
    return recipe


def _examine(
    job: Job,
    folder: RunFolder,
    recipe: Recipe,
    accept: Collection[str],
    examined: Callable[[Report], None],
) -> None:
    minutes = recipe.training.max_minutes or 0.0
    report = job.preflight(accept, max(10.0, 0.03 * 60 * minutes))
    if report is None:
        return
    text = json.dumps(json_value(report.as_json()), indent=2, ensure_ascii=False) + "\n"
    write_atomically(folder.path / "doctor" / "preflight.json", text)
    examined(report)
    refuse(report)


def run_path(recipe: Recipe, run: str | Path | None) -> Path:
    """Where a run of `recipe` goes.

    Raises:
        RunError: the path is no text, and so cannot stand in the run's records, or is a file.
    """
    path = Path(run) if run is not None else Path("runs") / recipe.name
    if not _is_text(path):
        raise RunError(
            "a run's path must be valid UTF-8", seen=ascii(str(path)), mend="name another folder"
        )
    if path.exists() and not path.is_dir():
        raise RunError(
            "a run is a folder", seen=f"{path} is a file", mend="name another with --run"
        )
    return path


def _is_text(path: str | Path) -> bool:
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:  # bytes that are no UTF-8 come as lone surrogates
        return False
    return True
