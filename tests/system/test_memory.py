"""A training that saves memory by recomputing is the training that does not, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from digits import TrainedRun, write_digits
from gnomon import api
from gnomon.errors import RecipeError, RunError
from gnomon.training import RunFolder
from small_training import Stop

BUDGET = ['memory.recompute="budget"', 'memory.budget="1 MiB"']
FULL, INT8 = ['memory.recompute="full"'], ['memory.activations="int8"']


def train(trained: TrainedRun, run: Path, data: Path, settings: list[str], stop: int = 0) -> bytes:
    listeners = [Stop(stop)] if stop else []
    steps = "training.max_steps=20"
    recipe = trained.recipe
    api.train(recipe, data=data, run=run, overrides=[steps, *settings], listeners=listeners)
    last = RunFolder(run).last()
    return (last / "model.safetensors").read_bytes()


def test_begun_with_one_and_finished_with_another(trained_run: TrainedRun, tmp_path: Path) -> None:
    data = write_digits(tmp_path)
    expected = train(trained_run, tmp_path / "plain", data, [])
    mixed = tmp_path / "mixed"
    train(trained_run, mixed, data, [], stop=5)
    train(trained_run, mixed, data, FULL, stop=10)
    train(trained_run, mixed, data, BUDGET, stop=15)
    assert train(trained_run, mixed, data, ['memory.recompute="selective"']) == expected


def test_8_bits_train_something_else_and_continue_exactly(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    data = write_digits(tmp_path)
    plain = train(trained_run, tmp_path / "plain", data, [])
    expected = train(trained_run, tmp_path / "whole", data, INT8)
    assert expected != plain
    parts = tmp_path / "parts"
    train(trained_run, parts, data, INT8, stop=5)
    with pytest.raises(RunError, match=r"memory\.activations: 'int8' → 'kept'"):
        train(trained_run, parts, data, [])
    assert train(trained_run, parts, data, INT8) == expected


def test_what_cannot_be_had_together_is_refused(trained_run: TrainedRun, tmp_path: Path) -> None:
    data = write_digits(tmp_path)
    with pytest.raises(RecipeError, match="choose one"):
        train(trained_run, tmp_path / "run", data, FULL + INT8)
