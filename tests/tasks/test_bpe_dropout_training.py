"""A training with BPE-dropout reads another variant each epoch and continues bit for bit."""

from __future__ import annotations

import random
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from gnomon.doctor.preflight import preflight
from gnomon.recipes import load_recipe
from small_training import RECIPE, check_continuation, opened


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, Path]:
    choose = random.Random(0)
    words = ["".join(choose.choices("abcdef", k=choose.randint(2, 6))) for _ in range(40)]
    lines = [choose.choices(words, k=choose.randint(1, 6)) for _ in range(300)]
    data = tmp_path / "letters.tsv"
    data.write_text("".join(f"{' '.join(line)}\t{' '.join(line[::-1])}\n" for line in lines))
    recipe = tmp_path / "letters.toml"
    recipe.write_text(RECIPE)
    return recipe, data


def test_epochs_take_the_variants_in_turn(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    task = opened(*inputs, tmp_path / "run")
    store, budget = task.store, task.tokens_per_batch
    assert store.num_variants == 3
    assert not preflight(task, load_recipe(inputs[0])).of("fail", "warn")
    tokens = set()
    last: list[np.ndarray] = []
    for epoch in range(4):
        variant = store.variant(epoch % 3)
        pairs: list[int] = []
        for spec in chain.from_iterable(task.epoch(epoch)):
            batch = task.collate(spec)
            assert batch.source.numel() + batch.target.numel() <= budget
            for pair, source in zip(batch.indices, batch.source, strict=True):
                ids = source[: variant.source_lengths[pair] - 1].tolist()
                assert ids == variant.source(pair).tolist()
            pairs += batch.indices
            # Batches of the epoch before can still be asked for: the loop looks ahead.
            if last:
                assert task.collate(last[0]).source.shape[0] == len(last[0])
        assert sorted(pairs) == list(range(len(store)))
        tokens.add(int(variant.source_lengths.sum()))
        last = list(task.epoch(epoch)[0])
    assert len(tokens) == 3


def test_dropout_changes_training_text_and_nothing_else(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    split = opened(*inputs, tmp_path / "split")
    plain = opened(*inputs, tmp_path / "plain", "tokenizer.bpe_dropout=0")
    assert plain.store.num_variants == 1
    assert split.store.folder != plain.store.folder
    assert split.preparation.tokenizers.fingerprint == plain.preparation.tokenizers.fingerprint
    assert split.store.source_lengths.sum() > plain.store.source_lengths.sum()
    assert len(split.store) == len(plain.store)
    plain.model.load_state_dict(split.model.state_dict())
    assert split.validate(0) == plain.validate(0)
    again = opened(*inputs, tmp_path / "seed", "training.seed=99")
    assert again.store.folder != split.store.folder
    assert again.preparation.tokenizers.fingerprint == split.preparation.tokenizers.fingerprint


def test_a_continued_training_is_the_uninterrupted_one(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    check_continuation(*inputs, tmp_path)


def test_the_recipe_refuses_dropout_without_merges(inputs: tuple[Path, Path]) -> None:
    from gnomon.errors import RecipeError

    with pytest.raises(RecipeError, match="bpe_dropout"):
        load_recipe(inputs[0], ["tokenizer.kind=unigram"])
