"""Masked language models: what is hidden, that it can be guessed, that the encoder can be used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon import api
from gnomon.errors import RecipeError
from gnomon.tasks import Encoder
from gnomon.tasks.masking import Masker, MaskingConfig
from gnomon.tasks.packing import NO_LABEL
from gnomon.text import Tokenizer, VocabularyConfig
from gnomon.text.framing import MASK, OwnFraming
from gnomon.text.vocabulary import Vocabulary
from masked_training import counting, train
from small_training import check_killed


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("masked")).run


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    texts = ["unbelievable things happened, yesterday-ish (really)!", *counting(50)]
    config = VocabularyConfig(vocab_size=330, min_frequency=1)
    return Vocabulary(OwnFraming(Tokenizer.train(texts, config, [MASK])))


def rows(vocabulary: Vocabulary, count: int) -> tuple[np.ndarray, np.ndarray]:
    text = "unbelievable things happened, yesterday-ish (really)! "
    (ids,) = vocabulary.encode([text * count])
    table = np.array([[vocabulary.begin_id, *ids]], np.int64)
    return table, np.arange(table.size)[None]


def test_words_are_whole(vocabulary: Vocabulary) -> None:
    ids, places = rows(vocabulary, 300)
    masker = Masker(vocabulary, MaskingConfig(), 1)
    words = masker.words(ids)
    text = vocabulary.decode(ids[0].tolist())
    first = [
        vocabulary.decode(ids[0][words[0] == start].tolist()).strip()
        for start in dict.fromkeys(words[0].tolist())
    ][1:12]
    assert first[:5] == ["unbelievable", "things", "happened", ",", "yesterday"]
    assert text.startswith("unbelievable things")
    _, labels = masker(ids, places, 0)
    chosen = labels[0] != NO_LABEL
    for start in set(words[0].tolist()):
        assert len(set(chosen[words[0] == start].tolist())) == 1
    alone = Masker(vocabulary, MaskingConfig(whole_words=False), 1)(ids, places, 0)[1][0]
    parts = [alone[words[0] == start] != NO_LABEL for start in set(words[0].tolist())]
    assert any(0 < part.sum() < len(part) for part in parts)


def test_shares_are_what_was_asked_for(vocabulary: Vocabulary) -> None:
    ids, places = rows(vocabulary, 3000)
    config = MaskingConfig(share=0.2, hidden=0.6, replaced=0.3, whole_words=False)
    read, labels = Masker(vocabulary, config, 1)(ids, places, 0)
    chosen = labels != NO_LABEL
    assert chosen[:, 1:].mean() == pytest.approx(0.2, abs=0.01)
    assert not chosen[0, 0]  # what begins a text is never guessed
    assert (labels[chosen] == ids[chosen]).all()
    assert (read[~chosen] == ids[~chosen]).all()
    assert (read[chosen] == vocabulary.framing.mask_id).mean() == pytest.approx(0.6, abs=0.02)
    assert (read[chosen] == ids[chosen]).mean() == pytest.approx(0.1, abs=0.02)


def test_masks_are_a_function_of_seed_epoch_and_place(vocabulary: Vocabulary) -> None:
    ids, places = rows(vocabulary, 100)

    def labels(seed: int, epoch: int) -> np.ndarray:
        return Masker(vocabulary, MaskingConfig(), seed)(ids, places, epoch)[1]

    assert (labels(1, 0) == labels(1, 0)).all()
    assert (labels(1, 0) != labels(1, 1)).any()
    assert (labels(1, 0) != labels(2, 0)).any()


def test_hidden_words_are_guessed_and_the_encoder_is_there(run: Path, tmp_path: Path) -> None:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    last = [line for line in lines if line["kind"] == "validation"][-1]["metrics"]
    assert last["accuracy"] > 80
    encoder = gnomon.load(run)
    assert isinstance(encoder, Encoder)
    assert encoder.embed(["one two three"]).shape == (1, 32)
    # A classifier begins with its network.
    (tmp_path / "labels.tsv").write_text(
        "text\tlabel\n" + "".join(f"{line}\t{line.split()[0]}\n" for line in counting(200))
    )
    tuned = api.train(
        "finetune",
        data=tmp_path / "labels.tsv",
        overrides=["training.max_steps=2", "data.max_length=24", "training.validate_every=2"],
        start_from=run,
        run=tmp_path / "tuned",
    )
    network = gnomon.load(tuned.run, checkpoint="last").network.network
    assert network.config.d_model == 32


def test_a_killed_training_continues_bit_for_bit(tmp_path: Path) -> None:
    short = ("training.max_steps=12", "training.checkpoint_every=4", "model.dropout=0.1")
    check_killed(train, tmp_path, *short)


def test_a_recipe_that_cannot_guess_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="head over the vocabulary"):
        train(tmp_path, "model.head.kind=none", "model.tie=none")
    with pytest.raises(RecipeError, match=r"masking\.share"):
        train(tmp_path, "masking.share=1.5")
