"""Replaced-token detection: what is drawn, that it is found, that the encoder can be tuned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gnomon
from document_training import train_on
from gnomon import api
from gnomon.errors import ModelError, RecipeError, RunError
from gnomon.tasks.packing import PackedBatch
from gnomon.tasks.replacement import ReplacementConfig, Replacer
from gnomon.training import RunFolder
from label_training import write
from masked_training import counting
from masked_training import train as train_generator
from small_training import Stop

RECIPE = """
name = "find"
task = "replaced_tokens"
[data]
context = 24
[model]
family = "encoder"
dropout = 0.0
head.kind = "none"
tie = "none"
[objective]
label_smoothing = 0.0
[schedule]
kind = "constant"
peak = 2e-3
warmup_steps = 10
[training]
tokens_per_batch = 480
max_steps = 120
validate_every = 60
checkpoint_every = 60
precision = "fp32"
"""


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_generator(tmp_path_factory.mktemp("generator")).run


def train(folder: Path, generator: Path | None, *overrides: str, **options: Any) -> api.Training:
    lines, valid = counting(400), counting(60, seed=1)
    return train_on(folder, RECIPE, lines, valid, *overrides, start_from=generator, **options)


@pytest.fixture(scope="module")
def run(generator: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Guesses of this text are nearly always right: a hot generator errs often enough.
    return train(tmp_path_factory.mktemp("find"), generator, "replacement.temperature=4").run


def draw(generator: Path, epoch: int = 0, **config: Any) -> tuple[Any, torch.Tensor, Any]:
    """Ids of the training text, what is read instead, and the masker's choice of places."""
    encoder = gnomon.load(generator)
    from gnomon.text.vocabulary import Vocabulary

    vocabulary = Vocabulary(encoder.framing)
    table = [ids for ids in vocabulary.encode(counting(200)) if len(ids) > 4]
    ids = np.array([[vocabulary.begin_id, *row[:5]] for row in table], np.int64)
    places = np.arange(ids.size).reshape(ids.shape)
    batch = PackedBatch(
        torch.from_numpy(ids), torch.zeros(len(ids), 7, dtype=torch.long), None, [0] * len(ids)
    )
    replacer = Replacer(encoder.model, vocabulary, ReplacementConfig(**config), seed=1)
    return vocabulary, replacer(batch, places, epoch), ids


def test_drawn_tokens_are_those_of_the_generator(generator: Path) -> None:
    vocabulary, cold, ids = draw(generator, temperature=0.01)
    _, hot, _ = draw(generator, temperature=100.0)
    changed = [float((read.numpy() != ids).mean()) for read in (cold, hot)]
    assert changed[0] < 0.03  # the best guess is mostly what stood there
    assert 0.08 < changed[1] < 0.2  # any token at all, at 15 in 100 places
    assert (hot[:, 0] == vocabulary.begin_id).all()
    special = {vocabulary.begin_id, vocabulary.end_id, vocabulary.pad_id, vocabulary.unk_id}
    assert not special & set(hot[hot.numpy() != ids].tolist())


def test_draws_are_a_function_of_seed_epoch_and_place(generator: Path) -> None:
    reads = [draw(generator, epoch=epoch, temperature=50.0)[1] for epoch in (0, 0, 1)]
    assert torch.equal(reads[0], reads[1])
    assert not torch.equal(reads[0], reads[2])


def test_replaced_tokens_are_found(run: Path) -> None:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    last = [line for line in lines if line["kind"] == "validation"][-1]["metrics"]
    assert last["f1"] > 60
    assert last["accuracy"] > 93
    model = gnomon.load(run)
    assert model.labels == ("original", "replaced")
    (odd,) = model.classify(["one two nine four five"])
    assert len(odd.labels) == 5


def test_the_detector_begins_with_the_generators_weights(generator: Path, tmp_path: Path) -> None:
    training = train(tmp_path, generator, "schedule.peak=1e-9", "training.max_steps=1")
    ours = gnomon.load(training.run, checkpoint="last").network.network.state_dict()
    theirs = gnomon.load(generator).model.state_dict()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], atol=1e-6, rtol=0)


def test_a_killed_training_goes_on_bitwise(generator: Path, tmp_path: Path, run: Path) -> None:
    settings = ["replacement.temperature=4"]
    train(tmp_path, generator, *settings, listeners=[Stop(70)])
    train(tmp_path, None, *settings)
    ends = [RunFolder(each).last() / "model.safetensors" for each in (run, tmp_path / "run")]
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_another_generator_is_refused_when_it_goes_on(generator: Path, tmp_path: Path) -> None:
    shutil.copytree(RunFolder(generator).best(), tmp_path / "generator")
    (tmp_path / "generator" / "training.json").unlink()  # its checksum
    train(tmp_path, tmp_path / "generator", listeners=[Stop(10)])
    weights = tmp_path / "generator" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(RunError, match="generator"):
        train(tmp_path, None)


def test_what_cannot_draw_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--from"):
        train(tmp_path, None)
    with pytest.raises(ModelError, match="guesses hidden"):
        train(tmp_path, run)
    with pytest.raises(RecipeError, match="temperature"):
        train(tmp_path, run, "replacement.temperature=0")


def test_it_can_be_tuned(run: Path, tmp_path: Path) -> None:
    settings = ["training.max_steps=4", "training.validate_every=2", "training.checkpoint_every=2"]
    data = write(tmp_path, "single")
    training = api.train(
        "finetune", data=data, overrides=settings, run=tmp_path / "tuned", start_from=run
    )
    assert gnomon.load(training.run, checkpoint="last").labels != ("original", "replaced")
