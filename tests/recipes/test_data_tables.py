"""Recipes of schema version 1 keep working; sources are read, checked and written as tables."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from gnomon.errors import RecipeError
from gnomon.recipes import difference, load_recipe, recipe_from_tree, to_toml
from gnomon.recipes.load import RecipeWarning
from gnomon.recipes.recipe import SCHEMA_VERSION

SOURCES = """
[[data.sources]]
source = "a.en"
target = "a.de"
tags = ["<2de>"]
weight = 0.5

[[data.sources]]
name = "French"
pairs = "b.jsonl"
source_field = "en"
tags = ["<2fr>"]

[[data.valid]]
pairs = "/v.tsv"
tags = ["<2de>"]
"""


@pytest.mark.parametrize("version", ["", "schema_version = 1\n"])
def test_recipes_that_name_tsv_files_keep_working(tmp_path, version):
    old = tmp_path / "old.toml"
    old.write_text(f'{version}[data]\ntsv = "a.tsv"\nvalid_tsv = "/b"\ntest_tsv = "c"\n')
    recipe = load_recipe(old)
    data = recipe.data
    assert data.pairs == str(tmp_path / "a.tsv")
    assert (data.valid_pairs, data.test_pairs) == ("/b", str(tmp_path / "c"))
    assert recipe.schema_version == SCHEMA_VERSION
    new = tmp_path / "new.toml"
    new.write_text(to_toml(recipe))
    assert difference(load_recipe(new), recipe) == []


@pytest.mark.parametrize("version", ["", "schema_version = 1\n", "schema_version = 2\n"])
def test_recipes_that_count_variants_of_bpe_dropout_keep_working(tmp_path, version):
    old = tmp_path / "old.toml"
    old.write_text(f"{version}[tokenizer]\nbpe_dropout = 0.1\nbpe_dropout_variants = 3\n")
    assert load_recipe(old).data.variants == 3
    assert load_recipe(old, ["tokenizer.bpe_dropout_variants=5"]).data.variants == 5
    old.write_text(f"{version}[data]\nvariants = 2\n[tokenizer]\nbpe_dropout_variants = 3\n")
    with pytest.raises(RecipeError, match=r"is now data\.variants"):
        load_recipe(old)


def test_overrides_may_use_the_old_name(tmp_path):
    assert load_recipe("tiny", ["data.tsv=/x"]).data.pairs == "/x"
    old = tmp_path / "old.toml"
    old.write_text('[data]\ntsv = "a.tsv"\n')
    assert load_recipe(old, ["data.pairs=/y"]).data.pairs == "/y"
    assert load_recipe(old, (), {"data.pairs": None}).data.pairs is None


def test_the_old_name_is_unknown_in_the_new_version():
    with pytest.raises(RecipeError, match="no key 'tsv'"):
        recipe_from_tree({"schema_version": 2, "data": {"tsv": "a"}})
    with pytest.raises(RecipeError, match=r"is now data\.pairs"):
        recipe_from_tree({"data": {"tsv": "a", "pairs": "b"}})


def test_sources_round_trip(tmp_path):
    file = tmp_path / "r.toml"
    file.write_text(SOURCES)
    recipe = load_recipe(file)
    first, second = recipe.data.sources
    assert first.files == (str(tmp_path / "a.en"), str(tmp_path / "a.de"))
    assert (first.tags, first.weight) == (("<2de>",), 0.5)
    assert (second.name, second.pairs) == ("French", str(tmp_path / "b.jsonl"))
    assert recipe.data.valid[0].pairs == "/v.tsv"
    assert recipe.data.tags == ("<2de>", "<2fr>")
    again = tmp_path / "elsewhere" / "r.toml"
    again.parent.mkdir()
    again.write_text(to_toml(recipe))
    assert load_recipe(again) == recipe


def test_differences_name_the_source(tmp_path):
    file = tmp_path / "r.toml"
    file.write_text(SOURCES)
    one = load_recipe(file)
    file.write_text(SOURCES.replace("0.5", "2.0"))
    assert difference(one, load_recipe(file)) == ["data.sources.0.weight: 0.5 → 2.0"]


def test_a_source_that_one_recipe_lacks_is_one_difference_without_its_defaults(tmp_path):
    file = tmp_path / "r.toml"
    file.write_text(SOURCES)
    both = load_recipe(file)
    one = replace(both, data=replace(both.data, sources=both.data.sources[:1]))
    pairs = repr(str(tmp_path / "b.jsonl"))
    (added,) = difference(one, both)
    assert added.startswith(f"data.sources.1: none → name 'French', pairs {pairs}")
    assert "format" not in added  # a mere default
    (removed,) = difference(both, one)
    assert removed.endswith(" → none")


def test_unknown_keys_and_broken_rules_of_a_source_are_named(tmp_path):
    file = tmp_path / "r.toml"
    file.write_text(SOURCES.replace("weight", "wieght"))
    with pytest.raises(RecipeError, match="no key 'wieght'; mend: did you mean weight"):
        load_recipe(file)
    file.write_text(SOURCES.replace('["<2de>"]', '["de"]'))
    with pytest.raises(RecipeError, match=r"data\.sources\[0\]\.tags: 'de' is no tag"):
        load_recipe(file)


def test_the_users_own_files_replace_the_recipes_sources(tmp_path):
    from gnomon import api

    file = tmp_path / "r.toml"
    file.write_text(SOURCES)
    data = api.read_recipe(file, data="mine.tsv").data
    assert (data.sources, data.valid, data.test) == ((), (), ())
    assert data.pairs is not None
    assert data.pairs.endswith("mine.tsv")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('holdout = 5\nvalid_pairs = "b"', r"data\.holdout"),
        ('format = "tsv"\n[[data.sources]]\npairs = "c"', r"data\.format"),
        ('[[data.sources]]\nsource = "a"\ntarget = "b"\nsource_field = "en"', r"sources\[0\]"),
    ],
)
def test_keys_without_effect_are_warned_of(tmp_path, text, named):
    head = "" if "sources" in text else 'pairs = "a"\n'
    (tmp_path / "r.toml").write_text(f"[data]\n{head}{text}\n")
    with pytest.warns(RecipeWarning, match=named):
        load_recipe(tmp_path / "r.toml")


@pytest.mark.parametrize("text", ["", 'holdout = 5\nformat = "tsv"\npairs = "a"', SOURCES])
def test_keys_with_effect_are_not(tmp_path, text):
    (tmp_path / "r.toml").write_text(text if "[[" in text else f"[data]\n{text}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecipeWarning)
        load_recipe(tmp_path / "r.toml")


def test_validation_text_of_the_caller_takes_the_place_of_the_recipes(tmp_path: Path) -> None:
    from gnomon import api

    file = tmp_path / "my.toml"
    file.write_text('[data]\npairs = "a.tsv"\n[[data.valid]]\npairs = "b.tsv"\n')
    data = api.read_recipe(file, valid_source="v.en", valid_target="v.de").data
    assert data.pairs == str(tmp_path / "a.tsv")
    assert data.valid == ()
    assert data.valid_source == str(Path("v.en").resolve())
    assert data.valid_target == str(Path("v.de").resolve())
    data = api.read_recipe(file, data="mine.tsv", valid_data="v.tsv").data
    assert data.valid_pairs == str(Path("v.tsv").resolve())
    with pytest.raises(RecipeError, match="valid_target"):
        api.read_recipe(file, valid_source="v.en")
