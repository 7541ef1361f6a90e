"""A recipe alone says whether its warm-up fits the model and the training."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gnomon
from gnomon.recipes import load_recipe, preset_names


@pytest.mark.parametrize("name", preset_names())
def test_presets_warm_up_and_post_norm_ones_must(name: str) -> None:
    recipe = load_recipe(name)
    assert verdict(recipe) == "pass"
    at_once = replace(recipe, schedule=replace(recipe.schedule, warmup_steps=1))
    post = recipe.model.norm.placement == "post" and name not in ("bilstm", "finetune")
    assert verdict(at_once) == ("warn" if post else "pass")
    too_long = replace(recipe.schedule, warmup_steps=recipe.training.max_steps)
    assert verdict(replace(recipe, schedule=too_long)) == "fail"


def verdict(recipe: object) -> str:
    report = gnomon.diagnose(recipe=recipe, only=["recipe-schedule"])
    return report["recipe-schedule"].verdict
