"""A recipe may name a vocabulary instead of having one learned."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece

from digits import DIGITS_RECIPE, write_digits
from gnomon import api
from gnomon.errors import ModelError, RecipeError
from gnomon.recipes import load_recipe
from gnomon.text import Tokenizer, TokenizerConfig


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = write_digits(tmp_path)
    sentencepiece.SentencePieceTrainer.train(
        input=str(data),
        model_prefix=str(tmp_path / "spm"),
        model_type="bpe",
        vocab_size=40,
        num_threads=1,
        minloglevel=2,
    )
    Tokenizer.train(["dog house 123"] * 9, TokenizerConfig(vocab_size=270)).save(
        tmp_path / "own.json"
    )
    (tmp_path / "recipe.toml").write_text(
        DIGITS_RECIPE.replace("vocab_size = 280\nsplit_digits = true", 'model_file = "spm.model"')
        + '[data]\npairs = "digits.tsv"\n'
    )
    return tmp_path


def test_a_sentencepiece_model_serves_training_and_translation(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the path is relative to the recipe's own folder
    training = api.train(folder / "recipe.toml", overrides=["training.max_steps=2"], run="run")
    translator = api.load(training.run)
    assert (
        translator.tokenizers.source.fingerprint == Tokenizer.load(folder / "spm.model").fingerprint
    )
    assert translator.tokenizers.joint
    assert len(translator.translate(["123", "45"])) == 2


def test_gnomons_own_vocabularies_one_for_each_side(folder: Path) -> None:
    recipe = load_recipe(
        folder / "recipe.toml",
        [
            "tokenizer.joint=false",
            "model.tie=decoder",
            f"tokenizer.target_model_file={folder / 'own.json'}",
        ],
    )
    preparation = api.prepare(recipe, run=folder / "run")
    assert preparation.tokenizers.target.pieces([4]) == ["<0x00>"]
    assert preparation.tokenizers.source.fingerprint != preparation.tokenizers.target.fingerprint


@pytest.mark.parametrize(
    "keys",
    [
        {"model_file": "a", "joint": False},
        {"model_file": "a", "target_model_file": "b"},
        {"target_model_file": "b", "joint": False},
    ],
)
def test_rules(keys: dict[str, object]) -> None:
    assert "target_model_file" in " ".join(TokenizerConfig(**keys).problems())  # type: ignore[arg-type]


def test_what_has_no_effect_is_named() -> None:
    (found,) = TokenizerConfig(model_file="a", vocab_size=500).unused()
    assert "vocab_size" in found
    assert not TokenizerConfig(model_file="a").unused()


def test_a_file_that_is_none(folder: Path) -> None:
    for name in ("absent.model", "digits.tsv"):
        recipe = load_recipe(folder / "recipe.toml", [f"tokenizer.model_file={folder / name}"])
        with pytest.raises((ModelError, RecipeError)):
            api.prepare(recipe, run=folder / "run")
