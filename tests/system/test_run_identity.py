"""A run continues with what it began with, and says so where that is gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import gnomon
from digits import TrainedRun, write_digits
from gnomon import api
from gnomon.errors import DataError, RecipeError, RunError
from small_training import Stop


def test_changed_text_is_refused(trained_run: TrainedRun, tmp_path: Path) -> None:
    data = write_digits(tmp_path)
    run = tmp_path / "run"
    stopped = api.train(trained_run.recipe, data=data, run=run, listeners=[Stop(10)])
    assert not stopped.outcome.finished
    original = data.read_text()
    write_digits(tmp_path, seed=1)
    with pytest.raises(RunError, match="training text"):
        api.train(trained_run.recipe, data=data, run=run)
    data.write_text(original)
    assert api.train(trained_run.recipe, data=data, run=run).outcome.finished


def test_fine_tuning_continues_without_its_base(trained_run: TrainedRun, tmp_path: Path) -> None:
    data = write_digits(tmp_path, seed=2)
    run = tmp_path / "run"
    base = trained_run.path / "checkpoints" / "step-00000040"
    api.train(trained_run.recipe, data=data, run=run, start_from=base, listeners=[Stop(10)])
    with pytest.raises(RunError, match="--from"):
        api.train(trained_run.recipe, data=data, run=run, start_from=trained_run.recipe)
    done = api.train(trained_run.recipe, data=data, run=run)
    assert done.outcome.step == 40
    tuned = gnomon.load(run)
    assert tuned.tokenizers.fingerprint == gnomon.load(base).tokenizers.fingerprint


def test_fine_tuning_takes_dropout_from_the_recipe_and_nothing_else(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    data = write_digits(tmp_path, seed=2)
    with pytest.raises(RecipeError, match=r"model\.d_model: 32 → 64"):
        api.train(
            trained_run.recipe,
            data=data,
            overrides=["model.d_model=64"],
            run=tmp_path / "other",
            start_from=trained_run.path,
        )
    tuned = api.train(
        trained_run.recipe,
        data=data,
        overrides=["model.dropout=0.3", "training.max_steps=1"],
        run=tmp_path / "tuned",
        start_from=trained_run.path,
    )
    assert gnomon.load(tuned.run).model.config.dropout == 0.3


def test_a_stop_at_the_last_step_keeps_its_checkpoint(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    data = write_digits(tmp_path)
    run = tmp_path / "run"
    api.train(trained_run.recipe, data=data, run=run, listeners=[Stop(40)])
    assert api.train(trained_run.recipe, data=data, run=run).outcome.reason == "max_steps"
    assert gnomon.load(run, checkpoint="step-40")


def test_evaluations_with_other_searches_are_kept_apart(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    data = write_digits(tmp_path, num_pairs=20, seed=3)
    run = tmp_path / "run"  # the run itself is shared with other tests
    shutil.copytree(trained_run.path, run)
    shutil.rmtree(run / "evaluations", ignore_errors=True)
    for beam in (1, 3):
        gnomon.evaluate(run, data=data, beam=beam)
    reports = (run / "evaluations").iterdir()
    beams = {json.loads(path.read_text())["about"]["search"]["beam"] for path in reports}
    assert beams == {1, 3}


def test_learned_positions_end_without_losing_a_line(tmp_path: Path) -> None:

    write_recipe(tmp_path)
    learned = ["model.position.kind=learned", "model.position.max_length=12"]
    data = write_digits(tmp_path)
    with pytest.raises(RecipeError, match="learned positions must reach"):
        api.train(tmp_path / "r.toml", data=data, overrides=learned, run=tmp_path / "run")
    long = tmp_path / "valid.tsv"
    long.write_text("1\t1\n" + "1" * 30 + "\t" + "1" * 30 + "\n2\t2\n")
    training = api.train(
        tmp_path / "r.toml",
        data=data,
        overrides=[
            *learned,
            "data.max_length=11",
            f"data.valid_pairs={long}",
            "training.max_steps=2",
            "evaluation.validation_lines=1",
        ],
        run=tmp_path / "run",
    )
    texts = ["1", "12345678"]
    assert len(gnomon.load(training.run).translate(texts)) == 2


def test_a_new_run_never_writes_among_other_files(tmp_path: Path) -> None:
    from digits import DIGITS_RECIPE

    home = tmp_path / "mine"
    home.mkdir()
    data = write_digits(tmp_path)
    for name in ("recipe.toml", "manifest.json"):
        (home / name).write_text(DIGITS_RECIPE)
        with pytest.raises(RunError, match=f"folder of its own.*\n.*mine holds {name}"):
            api.train(home / name, data=data, run=home)
        assert [path.name for path in home.iterdir()] == [name]
        assert (home / name).read_text() == DIGITS_RECIPE
        (home / name).unlink()
    with pytest.raises(DataError):  # an attempt that fails on its text keeps no other away
        api.train(write_recipe(tmp_path), data=tmp_path / "absent.tsv", run=home)
    with pytest.raises(DataError):
        api.train(write_recipe(tmp_path), data=tmp_path / "absent.tsv", run=home)


def write_recipe(folder: Path) -> Path:
    from digits import DIGITS_RECIPE

    path = folder / "r.toml"
    path.write_text(DIGITS_RECIPE)
    return path
