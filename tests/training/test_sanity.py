"""The checks before training pass on a sound model and catch the faults they are there for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from digits import DIGITS_RECIPE, write_digits
from gnomon.tasks import TranslationTask
from gnomon.training import SanityCheck, check_sanity
from small_training import opened


@pytest.fixture
def task(tmp_path: Path) -> TranslationTask:
    recipe = tmp_path / "r.toml"
    recipe.write_text(DIGITS_RECIPE)
    return opened(recipe, write_digits(tmp_path), tmp_path / "run")


def verdicts(task: TranslationTask) -> dict[str, bool]:
    return {check.title: check.passed for check in check_sanity(task)}


FUTURE = "no position sees the future"
PADDING = "padding and neighbours have no influence"
LOSS = "the untrained loss is that of guessing"
GRADIENT = "every parameter gets a finite gradient"


def test_a_sound_model_passes_and_is_left_as_it_was(task: TranslationTask) -> None:
    before = {name: p.clone() for name, p in task.model.named_parameters()}
    state = torch.get_rng_state()
    checks = check_sanity(task)
    assert all(isinstance(check, SanityCheck) and check.passed for check in checks), checks
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], p) for name, p in task.model.named_parameters())
    assert all(p.grad is None for p in task.model.parameters())


def test_a_look_ahead_is_caught(task: TranslationTask, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = task.predict

    def leaking(batch: object, inputs: Tensor, keep: Tensor) -> Tensor:
        logits = honest(batch, inputs, keep)  # type: ignore[arg-type]
        return logits + inputs.float().mean(1, keepdim=True).expand_as(keep)[keep].unsqueeze(1)

    monkeypatch.setattr(task, "predict", leaking)
    assert not verdicts(task)[FUTURE]


def test_attended_padding_is_caught(task: TranslationTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task.model, "keep", lambda ids: torch.ones_like(ids, dtype=torch.bool))
    assert not verdicts(task)[PADDING]


def test_a_wrong_scale_is_caught(task: TranslationTask) -> None:
    with torch.no_grad():
        for table in task.model.tables.values():
            table.mul_(30)
    assert not verdicts(task)[LOSS]


def test_a_dead_parameter_is_caught(task: TranslationTask) -> None:
    task.model.register_parameter("unused", torch.nn.Parameter(torch.ones(2)))
    assert not verdicts(task)[GRADIENT]


def test_weights_that_are_taken_over_need_not_guess(task: TranslationTask) -> None:
    titles = [check.title for check in check_sanity(task, untrained=False)]
    assert LOSS not in titles
    assert {FUTURE, PADDING, GRADIENT} <= set(titles)
