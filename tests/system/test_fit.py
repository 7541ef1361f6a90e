"""`gnomon train --fit`: what is tried; memory is refused to a trial, which is not killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run_command
from digits import write_digits
from gnomon import api
from gnomon.api.fit import Trial, search
from gnomon.errors import RecipeError
from small_training import RECIPE


def machine(limit: int, *, refused: int = 1 << 60, bend: float = 0.0):
    """A trial of n tokens fills 1000 + 3 n (and with a bend more), and is refused beyond."""

    def attempt(size: int) -> Trial:
        peak = 1000 + int(3 * size * (1 + bend * size))
        if peak > refused:
            return Trial(size, fits=False)
        return Trial(size, fits=peak <= limit, peak=peak)

    return attempt


@pytest.mark.parametrize("bend", [0.0, 1e-5])
@pytest.mark.parametrize("limit", [10_000, 60_000, 1_000_000])
def test_nearly_all_that_fits_is_found(limit: int, bend: float) -> None:
    trials = search(machine(limit, bend=bend), 1 << 40, limit)
    best = max(trial.tokens_per_batch for trial in trials if trial.fits)
    attempt = machine(limit, bend=bend)
    assert attempt(best).fits
    assert not attempt(int(1.15 * best)).fits
    assert len(trials) <= 8


def test_no_batch_is_larger_than_a_step() -> None:
    trials = search(machine(10**9), 5000, 10**9)
    assert [trial.tokens_per_batch for trial in trials] == [1024, 4096, 5000]
    assert len(search(machine(10**9), 900, 10**9)) == 1


def test_what_is_refused_is_gone_about() -> None:
    trials = search(machine(60_000, refused=30_000), 1 << 40, 60_000)
    best = max(trial.tokens_per_batch for trial in trials if trial.fits)
    assert 8_000 < best <= 9_666  # at which 30,000 are filled


def test_nothing_fits() -> None:
    assert [trial.fits for trial in search(machine(1000), 5000, 1000)] == [False]


def test_a_real_one(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(RECIPE)
    data = write_digits(tmp_path)
    before = set(tmp_path.rglob("*"))
    overrides = ("--set", "training.tokens_per_batch=600", "--set", "training.accumulate=2")
    command = ("train", "r.toml", "--data", data, "--fit", "--json", *overrides)
    done = run_command(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tokens_per_step"] == 1200
    assert (found["tokens_per_batch"], found["accumulate"]) == (1200, 1)
    last = found["trials"][-1]
    assert last["fits"]
    assert last["activations"] < last["peak"] < found["limit"]
    assert set(tmp_path.rglob("*")) == before


def test_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(RECIPE)
    recipe = api.read_recipe(tmp_path / "r.toml", data=write_digits(tmp_path))
    with pytest.raises(RecipeError, match="a batch must fit"):
        api.fit(recipe, run=tmp_path / "run", free=150 * 2**20)
