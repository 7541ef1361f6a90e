"""A training on augmented text: only training text changes, and it continues bit for bit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gnomon import api
from gnomon.errors import DataError, RecipeError
from gnomon.recipes import difference, load_recipe, to_toml
from gnomon.recipes.load import keys_without_effect
from small_training import RECIPE, check_continuation, opened

ALL = """
[augmentation]
upper = 0.1
lower = 0.1
title = 0.1
no_final_punctuation = 0.2
typos = 0.2
extra_blanks = 0.3
single_words = 3
terms = "terms.tsv"
"""


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, Path]:
    """Sentences of five letters and a mark, every fourth a word alone; two terms."""
    names = ["Anton", "Berta", "Carla", "Doris", "Emil"]
    lines = [[names[(number * k + k) % 5] for k in (1, 2, 3, 7)] for number in range(240)]
    pairs = [
        (names[number % 5], names[number % 5])
        if number % 4 == 0
        else (" ".join(line) + ".", " ".join(reversed(line)) + ".")
        for number, line in enumerate(lines)
    ]
    (tmp_path / "terms.tsv").write_text("Berta Doris\tDoris Berta\nEmil\tEmil\n")
    data = tmp_path / "letters.tsv"
    data.write_text("".join(f"{number} {s}\t{t} {number}\n" if " " in s else f"{s}\t{t}\n"
                            for number, (s, t) in enumerate(pairs)))  # fmt: skip
    recipe = tmp_path / "letters.toml"
    recipe.write_text(RECIPE + ALL)
    return recipe, data


PLAIN = [
    *(f"augmentation.{name}=0.0" for name in ("upper", "lower", "title", "typos", "extra_blanks")),
    *("augmentation.no_final_punctuation=0.0", "augmentation.single_words=1.0"),
]


def test_only_training_text_changes(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    augmented = opened(*inputs, tmp_path / "augmented")
    plain = opened(*inputs, tmp_path / "plain", *PLAIN)
    assert augmented.store.folder != plain.store.folder
    assert len(augmented.store) == len(plain.store)
    one, two = augmented.preparation, plain.preparation
    assert one.tokenizers.fingerprint == two.tokenizers.fingerprint
    assert one.corpora.valid is not None and two.corpora.valid is not None
    assert list(one.corpora.valid.pairs()) == list(two.corpora.valid.pairs())
    plain.model.load_state_dict(augmented.model.state_dict())
    assert augmented.validate(0) == plain.validate(0)


def test_words_alone_and_terms_are_seen_more_often(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    task = opened(*inputs, tmp_path / "run", "tokenizer.bpe_dropout=0", *PLAIN[:-1])
    store, (own, terms) = task.store, task.preparation.corpora.train.parts
    assert terms.stop - terms.start == 2
    for epoch in (0, 1):
        seen = Counter(int(pair) for part in task.epoch(epoch) for batch in part for pair in batch)
        assert sorted(seen) == list(range(len(store)))
        for pair in range(len(store)):
            text = task.preparation.tokenizers.source.decode([store.source(pair).tolist()])[0]
            is_term = int(store.line_numbers[pair]) > own.stop
            assert seen[pair] == (3 if is_term or " " not in text else 1), text
    assert is_term, "the terms come last"


def test_terms_are_kept_out_of_validation(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    with_terms = opened(*inputs, tmp_path / "1").preparation.corpora
    recipe = tmp_path / "without.toml"
    recipe.write_text(RECIPE)
    without = opened(recipe, inputs[1], tmp_path / "2").preparation.corpora
    assert with_terms.valid is not None and without.valid is not None
    assert list(with_terms.valid.pairs()) == list(without.valid.pairs())
    assert len(with_terms.train) == len(without.train) + 2
    assert [pair.source for pair in with_terms.train.pairs()][-2:] == ["Berta Doris", "Emil"]


def test_a_continued_training_is_the_uninterrupted_one(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    check_continuation(*inputs, tmp_path)


def test_the_table_survives_a_round_trip(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    recipe = load_recipe(inputs[0])
    assert recipe.augmentation.terms == str(tmp_path / "terms.tsv")
    assert (recipe.augmentation.upper, recipe.augmentation.single_words) == (0.1, 3)
    again = tmp_path / "again.toml"
    again.write_text(to_toml(recipe))
    assert difference(load_recipe(again), recipe) == []
    assert keys_without_effect(recipe) == []


def test_mistakes_are_told(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    recipe, data = inputs
    with pytest.raises(RecipeError, match="together"):
        load_recipe(recipe, ["augmentation.upper=0.9", "augmentation.lower=0.9"])
    with pytest.raises(RecipeError, match="did you mean upper"):
        load_recipe(recipe, ["augmentation.uper=0.9"])
    tagged = tmp_path / "tagged.toml"
    tagged.write_text(
        RECIPE.replace("holdout = 20", "") + ALL
        + '[[data.sources]]\npairs = "letters.tsv"\ntags = ["<2de>"]\n'
    )  # fmt: skip
    with pytest.raises(RecipeError, match="terms has no tags"):
        load_recipe(tagged)
    with pytest.raises(DataError, match="absent"):
        api.train(recipe, data=data, run=tmp_path / "x", overrides=["augmentation.terms=absent"])
    with pytest.warns(UserWarning, match=r"data\.variants has no effect"):
        load_recipe(recipe, [*PLAIN, "tokenizer.bpe_dropout=0"])
    with pytest.warns(UserWarning, match=r"augmentation\.title has no effect"):
        load_recipe(recipe, ["tokenizer.lowercase=true"])
