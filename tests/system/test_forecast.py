"""`gnomon train --dry-run`: what a training will cost, of every task, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import document_training
import label_training
from command_line import run_command
from digits import write_digits
from gnomon import api
from gnomon.model.bilstm import BiLSTM
from gnomon.recipes import Recipe
from small_training import RECIPE


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def recipe_of(task: str, folder: Path) -> Path:
    """A recipe file of a task that names its text, written into `folder`."""
    if task == "translation":
        text, data = RECIPE, f'pairs = "{write_digits(folder)}"'
    elif task in ("classification", "bilstm"):
        text = label_training.RECIPE
        if task == "bilstm":
            model = text[text.index("[model]") : text.index("[objective]")]
            text = text.replace(model, "[bilstm]\nd_model = 16\nembedding_size = 8\n")
            text = text.replace("[data]", 'network = "bilstm"\n[data]', 1)
        data = f'train = "{label_training.write(folder, "single", 200)}"'
    else:
        path = folder / "text.txt"
        path.write_text("\n".join(document_training.counting(300)) + "\n")
        text, data = document_training.RECIPES[task], f'train = "{path}"'
    (folder / "r.toml").write_text(text.replace("[data]", f"[data]\n{data}", 1))
    return folder / "r.toml"


def model_of(recipe: Recipe, run: Path) -> nn.Module:
    """The model of a recipe's training, as it stands before its first step."""
    caught: list[nn.Module] = []

    class EnoughError(Exception):
        pass

    def catch(task: Any) -> None:
        caught.append(task.model)
        raise EnoughError

    with pytest.raises(EnoughError):
        api.train(recipe, run=run, before_start=catch)
    return caught[0]


@pytest.mark.parametrize(
    "task", ["translation", "language_model", "masked_lm", "classification", "bilstm"]
)
def test_of_every_task(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = api.read_recipe(recipe_of(task, tmp_path))
    monkeypatch.chdir(tmp_path)
    before = files(tmp_path)
    found = api.forecast(recipe, seconds=0.3)
    assert files(tmp_path) == before
    model = model_of(recipe, tmp_path / "run")
    assert (task == "bilstm") == any(isinstance(module, BiLSTM) for module in model.modules())
    assert found.parameters.total == sum(p.numel() for p in model.parameters())
    assert 0 < found.parameters.embeddings < found.parameters.total
    assert found.states.weights == 4 * found.parameters.total
    assert found.states.optimizer >= 2 * found.states.weights
    assert found.num_steps == recipe.training.max_steps
    assert 0 < found.real_tokens <= found.padded_tokens <= recipe.training.tokens_per_batch
    assert found.seconds_per_step > 0
    assert all(size > 0 for kept in found.kept for _, size in kept.by_budget.values())


def test_epochs_and_micro_batches(tmp_path: Path) -> None:
    path = recipe_of("translation", tmp_path)
    one = api.forecast(api.read_recipe(path), seconds=0.3)
    settings = ["training.accumulate=3", "training.max_epochs=3"]
    three = api.forecast(api.read_recipe(path, overrides=settings), seconds=0.3)
    assert three.real_tokens == pytest.approx(3 * one.real_tokens)
    assert three.operations.total == pytest.approx(3 * one.operations.total)
    assert three.num_steps < one.num_steps
    settings = ["training.max_minutes=1e-6", 'memory.recompute="budget"', 'memory.budget="1 MB"']
    short = api.forecast(api.read_recipe(path, overrides=settings), seconds=0.3)
    assert short.seconds == pytest.approx(6e-5)
    assert short.layers_chosen is not None
    assert three.kept == one.kept


def test_what_is_prepared_is_used_and_stays(tmp_path: Path) -> None:
    recipe = api.read_recipe(recipe_of("translation", tmp_path))
    run = tmp_path / "runs" / "one"
    api.prepare(recipe, run=run, say=lambda message: None)
    before = {path: path.stat().st_mtime_ns for path in files(tmp_path) if path.is_file()}
    api.forecast(recipe, run=run, seconds=0.3)
    assert before == {path: path.stat().st_mtime_ns for path in files(tmp_path) if path.is_file()}


def test_at_the_command_line(tmp_path: Path) -> None:
    path = recipe_of("language_model", tmp_path)
    done = run_command("train", path, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0
    said = done.stderr.decode()
    for word in ("FLOPs a token", "activations by length", "parameters:", "s a step", "steps"):
        assert word in said
    assert done.stdout == b""
    done = run_command("train", path, "--dry-run", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["num_steps"] == 60
    assert found["seconds"] == pytest.approx(60 * found["seconds_per_step"])
    assert not (tmp_path / "runs").exists()
    done = run_command("train", path, "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert b"--json goes with --dry-run" in done.stderr
