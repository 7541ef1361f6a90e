"""Recipes: presets, overrides, errors that all come at once, TOML that comes back the same."""

import json
import tomllib
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from gnomon.errors import RecipeError
from gnomon.model import Transformer
from gnomon.recipes import (
    TranslationRecipe,
    difference,
    json_schema,
    keys_unknown_to,
    load_recipe,
    preset_names,
    preset_text,
    recipe_from_tree,
    recipe_text,
    to_toml,
)
from gnomon.recipes.load import RecipeWarning


def test_there_are_presets_and_each_says_what_it_is_for() -> None:
    assert {"tiny", "small", "vaswani-base", "vaswani-big", "quickstart"} <= set(preset_names())
    for name in preset_names():
        tree = tomllib.loads(preset_text(name))
        assert tree["name"] == name
        assert tree["description"]


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_whole_and_without_dead_keys(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecipeWarning)
        recipe = load_recipe(name)
    assert recipe.name == name


@pytest.mark.parametrize("name", preset_names())
def test_expanded_toml_gives_the_same_recipe(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    (tmp_path / "again.toml").write_text(to_toml(recipe))
    assert load_recipe(tmp_path / "again.toml") == recipe
    assert difference(recipe, load_recipe(tmp_path / "again.toml")) == []


def test_defaults_are_the_2017_base_model() -> None:
    recipe = TranslationRecipe()
    assert recipe == replace(
        load_recipe("vaswani-base"),
        name="run",
        description="",
        tokenizer=recipe.tokenizer,
        training=recipe.training,
        decoding=recipe.decoding,
    )
    model = recipe.model
    sizes = (model.d_model, model.num_encoder_layers, model.num_decoder_layers)
    assert sizes == (512, 6, 6)
    assert (model.attention.num_heads, model.feedforward.size, model.dropout) == (8, 2048, 0.1)
    assert (recipe.schedule.kind, recipe.schedule.warmup_steps) == ("noam", 4000)
    assert (recipe.optimizer.betas, recipe.optimizer.eps) == ((0.9, 0.98), 1e-9)
    assert recipe.objective.label_smoothing == 0.1


@pytest.mark.parametrize(("name", "millions"), [("vaswani-base", 65), ("vaswani-big", 213)])
def test_the_papers_parameter_counts(name: str, millions: int) -> None:
    import torch

    # Table 3 of Vaswani et al. 2017; its vocabulary is "about 37000" and its counts are rounded.
    with torch.device("meta"):
        model = Transformer(load_recipe(name).model)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert abs(count / 1e6 - millions) < 0.04 * millions


def test_overrides_are_toml_values_or_bare_words() -> None:
    recipe = load_recipe(
        "tiny",
        [
            "training.max_steps=7",
            "model.norm.placement=post",
            "optimizer.betas=[0.8, 0.9]",
            'name="other"',
        ],
    )
    assert recipe.training.max_steps == 7
    assert recipe.model.norm.placement == "post"
    assert recipe.optimizer.betas == (0.8, 0.9)
    assert recipe.name == "other"


def test_all_errors_are_reported_at_once() -> None:
    tree = {
        "nam": "x",
        "model": {"dmodel": 64, "attention": {"num_heads": "four"}},
        "training": {"max_steps": 1.5},
    }
    with pytest.raises(RecipeError) as caught:
        recipe_from_tree(tree)
    message = str(caught.value)
    assert "did you mean name?" in message
    assert "did you mean d_model?" in message
    assert "model.attention.num_heads" in message
    assert "training.max_steps" in message
    assert "4 problem(s)" in message


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (["schedule.warmup_steps=-1", "decoding.beam=0"], ["schedule.warmup_steps", "beam"]),
        (["optimizer.eps=0.0"], ["optimizer.eps"]),
        (["objective.label_smoothing=1.0"], ["objective.label_smoothing"]),
        (["model.attention.num_heads=7"], ["model.", "7"]),
        (["tokenizer.joint=false"], ["model.tie"]),
        (["model.family=decoder"], ["model.family"]),
        (["name=a/b"], ["folder name"]),
        (["training.best_metric=ter"], ["best_metric", "nll, bleu, chrf, exact_match"]),
        (["training.best_metric=bleu"], ["best_mode"]),
        (
            ["model.position.kind=rope", "model.position.rope.scaling=dynamic_ntk"],
            ["dynamic_ntk"],
        ),
        (
            ["optimizer.name=schedule_free", "averaging.kind=ema"],
            ["schedule.kind", "averaging.kind"],
        ),
        (["optimizer.momentum=1.0"], ["optimizer.momentum"]),
        (["training.compile=true", "memory.recompute=full"], ["training.compile", "memory"]),
    ],
)
def test_broken_rules_are_named(overrides: list[str], names: list[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe("tiny", overrides)
    for name in names:
        assert name in str(caught.value)


def test_keys_without_effect_warn() -> None:
    with pytest.warns(RecipeWarning, match=r"schedule\.factor"):
        load_recipe("tiny", ["schedule.factor=2.0"])
    with pytest.warns(RecipeWarning, match=r"model\.vocab_size"):
        load_recipe("tiny", ["model.vocab_size=100"])
    with pytest.warns(RecipeWarning, match=r"model\.attention\.window"):
        load_recipe("tiny", ["model.attention.window=8"])
    with pytest.warns(RecipeWarning, match=r"decoding\.alpha"):
        load_recipe("tiny", ["decoding.length_penalty=none", "decoding.alpha=1.0"])
    with pytest.warns(RecipeWarning, match=r"optimizer\.momentum"):
        load_recipe("tiny", ["optimizer.momentum=0.9"])
    with pytest.warns(RecipeWarning, match=r"optimizer\.eps"):
        load_recipe("tiny", ["optimizer.name=adafactor", "optimizer.eps=1e-7"])
    with pytest.warns(RecipeWarning, match=r"objective\.r_drop"):
        load_recipe("tiny", ["objective.r_drop=5.0", "model.dropout=0.0"])


def test_paths_belong_to_the_files_folder_and_overrides_to_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    recipe = tmp_path / "there" / "r.toml"
    recipe.write_text('[data]\nsource = "a.en"\ntarget = "a.de"\n')
    monkeypatch.chdir(tmp_path / "here")
    assert load_recipe(recipe).data.source == str(tmp_path / "there" / "a.en")
    changed = load_recipe(recipe, ["data.source=b.en"])
    assert changed.data.source == str(tmp_path / "here" / "b.en")
    assert changed.data.target == str(tmp_path / "there" / "a.de")


def test_a_newer_schema_and_broken_toml_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="schema version"):
        recipe_from_tree({"schema_version": 99})
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(RecipeError, match="valid TOML"):
        load_recipe(tmp_path / "bad.toml")
    with pytest.raises(RecipeError, match="must exist"):
        load_recipe(tmp_path / "absent.toml")
    with pytest.raises(RecipeError, match="presets: "):
        load_recipe("absent")


def test_difference_names_only_what_differs() -> None:
    old = load_recipe("tiny")
    new = load_recipe("tiny", ["training.seed=2", "model.dropout=0.2"])
    assert difference(old, new) == ["model.dropout: 0.1 → 0.2", "training.seed: 1 → 2"]


def test_differences_of_one_table_stand_together_in_the_recipe_s_order() -> None:
    changes = ["training.seed=2", "decoding.beam=2", "training.max_steps=9", "data.holdout=25"]
    found = difference(load_recipe("tiny"), load_recipe("tiny", changes))
    keys = [one.split(":")[0] for one in found]
    assert keys == ["data.holdout", "training.max_steps", "training.seed", "decoding.beam"]


def test_keys_that_an_older_recipe_does_not_hold_are_named() -> None:
    tree = tomllib.loads(to_toml(load_recipe("tiny")))
    assert keys_unknown_to(tree) == []
    del tree["optimizer"]["weight_decay"], tree["averaging"]
    assert keys_unknown_to(tree)[0] == "optimizer.weight_decay"
    assert {key.split(".")[0] for key in keys_unknown_to(tree)[1:]} == {"averaging"}
    tree = tomllib.loads(to_toml(load_recipe("tiny", ['data.sources=[{pairs="a.tsv"}]'])))
    assert keys_unknown_to(tree) == []  # a list that is not empty is written otherwise


def test_schema_knows_every_table() -> None:
    schema = json.dumps(json_schema())
    for key in ("label_smoothing", "num_heads", "warmup_steps", "tokens_per_batch", "holdout"):
        assert key in schema


def test_a_key_without_its_table_is_found() -> None:
    with pytest.raises(RecipeError, match=r"did you mean training\.max_steps"):
        load_recipe("tiny", ["max_steps=5"])


def test_the_text_of_a_file_is_shown_as_that_of_a_preset(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('name = "mine"\n')
    assert recipe_text(tmp_path / "my.toml") == ('name = "mine"\n', tmp_path.resolve())
    assert 'name = "tiny"' in recipe_text("tiny")[0]
    with pytest.raises(RecipeError, match="must exist"):
        recipe_text(tmp_path / "not.toml")
