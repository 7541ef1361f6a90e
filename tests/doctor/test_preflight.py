"""The examination before a training passes a sound one and catches the faults it is there for."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from command_line import run_command
from digits import DIGITS_RECIPE, write_digits
from gnomon import api
from gnomon.doctor import Report
from gnomon.doctor.preflight import CHECKS, preflight
from gnomon.errors import CheckError, DoctorError
from gnomon.recipes import Recipe, load_recipe
from gnomon.tasks import TranslationTask
from small_training import opened


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    file = tmp_path / "r.toml"
    file.write_text(DIGITS_RECIPE)
    return load_recipe(file)


@pytest.fixture
def task(recipe: Recipe, tmp_path: Path) -> TranslationTask:
    return opened(tmp_path / "r.toml", write_digits(tmp_path), tmp_path / "run")


def failed(report: Report) -> set[str]:
    return {each.code for each in report.of("fail")}


def test_a_sound_model_passes_and_is_left_as_it_was(task: TranslationTask, recipe: Recipe) -> None:
    before = {name: p.clone() for name, p in task.model.named_parameters()}
    state, modes = torch.get_rng_state(), [m.training for m in task.model.modules()]
    report = preflight(task, recipe, seconds=math.inf)
    assert not report.of("fail", "warn"), report.of("fail", "warn")
    assert report.facts["anatomy"] == [], "the first step need not wait for it"
    skipped = {each.code: each.evidence for each in report.of("skip")}
    assert len(skipped) <= 2, skipped
    assert torch.equal(state, torch.get_rng_state())
    assert modes == [m.training for m in task.model.modules()]
    assert all(torch.equal(before[name], p) for name, p in task.model.named_parameters())
    assert all(p.grad is None for p in task.model.parameters())


def test_a_look_ahead_is_caught(
    task: TranslationTask, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = task.predict

    def leaking(batch: object, inputs: Tensor, keep: Tensor) -> Tensor:
        logits = honest(batch, inputs, keep)  # type: ignore[arg-type]
        return logits + inputs.float().mean(1, keepdim=True).expand_as(keep)[keep].unsqueeze(1)

    monkeypatch.setattr(task, "predict", leaking)
    assert "future-leak" in failed(preflight(task, recipe, seconds=math.inf))


def test_attended_padding_is_caught(
    task: TranslationTask, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task.model, "keep", lambda ids: torch.ones_like(ids, dtype=torch.bool))
    assert "padding-leak" in failed(preflight(task, recipe, seconds=math.inf))


def test_a_wrong_scale_is_caught(task: TranslationTask, recipe: Recipe) -> None:
    with torch.no_grad():
        for table in task.model.tables.values():
            table.mul_(30)
    assert "initial-loss" in failed(preflight(task, recipe, seconds=math.inf))


def test_a_dead_parameter_is_caught(task: TranslationTask, recipe: Recipe) -> None:
    task.model.register_parameter("unused", torch.nn.Parameter(torch.ones(2)))
    assert failed(preflight(task, recipe, seconds=math.inf)) == {"parameter-unused"}


def test_a_gradient_that_is_not_finite_is_caught(task: TranslationTask, recipe: Recipe) -> None:
    with torch.no_grad():
        task.model.get_submodule("encoder.layers.0.feedforward.down").weight.fill_(3e38)  # type: ignore[operator, union-attr]
    report = preflight(task, recipe, seconds=math.inf)
    assert "non-finite" in failed(report)
    assert report["non-finite"].where[0].startswith("encoder.layers.0.feedforward")


def test_weights_that_are_taken_over_need_not_guess(
    tmp_path: Path, recipe: Recipe, trained_run: object
) -> None:
    run = trained_run.path  # type: ignore[attr-defined]
    data = write_digits(tmp_path)
    training = api.train(
        tmp_path / "r.toml",
        data=data,
        run=tmp_path / "tuned",
        start_from=run,
        overrides=["training.max_steps=1"],
    )
    kept = json.loads((training.run / "doctor/preflight.json").read_text())
    assert kept["counts"]["fail"] == 0


def test_a_training_does_not_start_on_a_failed_check_unless_it_is_accepted(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(task: TranslationTask) -> None:
        task.model.register_parameter("unused", torch.nn.Parameter(torch.ones(2)))

    data, toml = write_digits(tmp_path), tmp_path / "r.toml"
    options = {"data": data, "before_start": spoil, "overrides": ["training.max_steps=1"]}
    with pytest.raises(CheckError, match=r"unused[\s\S]*cause:[\s\S]*--accept parameter-unused"):
        api.train(toml, run=tmp_path / "run", **options)  # type: ignore[arg-type]
    assert not list((tmp_path / "run").glob("checkpoints/*"))
    with pytest.raises(DoctorError, match="--list"):
        api.train(toml, run=tmp_path / "run", accept=["no-such"], **options)  # type: ignore[arg-type]
    seen: list[Report] = []
    training = api.train(
        toml,
        run=tmp_path / "run",
        accept=["parameter-unused"],
        examined=seen.append,
        **options,  # type: ignore[arg-type]
    )
    assert training.outcome.finished
    assert seen[0].counts()["suppressed"] == 1
    kept = json.loads((tmp_path / "run/doctor/preflight.json").read_text())
    (finding,) = [each for each in kept["findings"] if each["code"] == "parameter-unused"]
    assert finding["suppressed"] == "--accept"


def test_time_that_is_used_up_is_said(task: TranslationTask, recipe: Recipe) -> None:
    report = preflight(task, recipe, seconds=0.0)
    assert {each.verdict for each in report} == {"skip"}
    assert "used up" in report.findings[0].evidence


def test_the_command_line_says_how_many_hold(tmp_path: Path, recipe: Recipe) -> None:
    data = write_digits(tmp_path)
    done = run_command(
        "train", tmp_path / "r.toml", "--data", data, "--run", tmp_path / "run",
        "--set", "training.max_steps=1",
    )  # fmt: skip
    assert done.returncode == 0
    assert b"checks hold before the first step" in done.stderr


def test_codes_are_those_of_checks() -> None:
    from gnomon.doctor import all_checks

    assert set(CHECKS) <= set(all_checks())
