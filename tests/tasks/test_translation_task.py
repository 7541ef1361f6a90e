"""Translator, preparation and model folder: what a user of the Python api relies on."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import gnomon
from digits import TrainedRun, write_digits
from gnomon.errors import ModelError, RecipeError, RunError
from gnomon.tasks import load_translator, prepare_translation, save_translator
from gnomon.text import DataConfig, TokenizerConfig


def test_translation_does_not_depend_on_its_neighbours(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    texts = trained_run.sources[:40]
    together = translator.translate(texts)
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    shuffled = translator.translate([texts[i] for i in order], batch_tokens=50)
    for place, i in enumerate(order):
        assert shuffled[place].text == together[i].text
        assert shuffled[place].score == pytest.approx(together[i].score, rel=1e-4)
    alone = [translator.translate([text])[0].text for text in texts]
    assert alone == [translation.text for translation in together]


def test_blank_texts_stay_blank_and_in_place(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    results = translator.translate(["", "12", " \t", "34", ""])
    assert [result.num_tokens > 0 for result in results] == [False, True, False, True, False]
    assert translator.translate([]) == []
    assert translator.translate([""])[0].text == ""


def test_search_settings_by_call(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    (result,) = translator.translate(["1234"], beam=3, nbest=3)
    scores = [result.score, *(other.score for other in result.alternatives)]
    assert scores == sorted(scores, reverse=True)
    assert len({result.text, *(other.text for other in result.alternatives)}) >= 2
    (short,) = translator.translate(
        ["12345678"], beam=1, max_length_factor=0.0, max_length_offset=1
    )
    assert short.truncated
    assert short.num_tokens == 1
    with pytest.raises(RecipeError, match="fields: "):
        translator.translate(["1"], beams=3)
    with pytest.raises(RecipeError, match="beam"):
        translator.translate(["1"], beam=0)
    with pytest.raises(RecipeError, match="list of texts"):
        translator.translate("12")


def test_one_text_gives_one_line_even_where_bytes_spell_line_breaks(
    trained_run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = gnomon.load(trained_run.path)
    monkeypatch.setattr(
        type(translator.tokenizers.target),
        "decode",
        lambda self, rows: ["a\nb\r\nc\u2028d"] * len(rows),
    )
    assert translator.translate(["12"])[0].text == "a b c d"


def test_text_unlike_the_training_text_is_marked(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    far = [result.far for result in translator.translate(["1234", "Hello there, world", ""])]
    assert far == [False, True, None]


def test_folder_round_trip_is_bitwise(trained_run: TrainedRun, tmp_path: Path) -> None:
    translator = gnomon.load(trained_run.path)
    save_translator(translator, tmp_path / "copy")
    again = gnomon.load(tmp_path / "copy")
    for (name, a), (_, b) in zip(
        translator.model.named_parameters(), again.model.named_parameters(), strict=True
    ):
        assert torch.equal(a, b), name
    assert again.search == translator.search
    texts = trained_run.sources[:10]
    assert again.translate(texts) == translator.translate(texts)
    card = (tmp_path / "copy" / "README.md").read_text()
    assert "parameters" in card


def test_every_checkpoint_is_a_model_folder(trained_run: TrainedRun) -> None:
    for path in (trained_run.path / "checkpoints").glob("step-*"):
        assert gnomon.load(path).translate(["12"])[0].num_tokens > 0
    last = gnomon.load(trained_run.path, checkpoint="last").translate(["12"])
    assert gnomon.load(trained_run.path, checkpoint="step-40").translate(["12"]) == last
    with pytest.raises(RunError, match="step-40"):
        gnomon.load(trained_run.path, checkpoint="step-3")


def test_damaged_or_foreign_folders_are_refused(trained_run: TrainedRun, tmp_path: Path) -> None:
    source = trained_run.path / "checkpoints" / "step-00000040"

    def damaged(name: str, text: str) -> Path:
        folder = tmp_path / hashlib.md5((name + text).encode()).hexdigest()
        shutil.copytree(source, folder)
        (folder / name).write_text(text)
        return folder

    config = json.loads((source / "config.json").read_text())
    for folder in (
        damaged("config.json", "{"),
        damaged("config.json", json.dumps(config | {"task": "chess"})),
        damaged("config.json", json.dumps(config | {"format_version": 99})),
        damaged("config.json", json.dumps(config | {"search": {"beam": "wide"}})),
        damaged("tokenizer.json", "no json"),
        damaged("model.safetensors", "no tensors"),
    ):
        with pytest.raises(ModelError):
            load_translator(folder)
        shutil.rmtree(folder)


def test_preparation_is_reused_and_told(tmp_path: Path) -> None:
    data = DataConfig(pairs=str(write_digits(tmp_path)), holdout=20)
    tokenizer = TokenizerConfig(vocab_size=280, split_digits=True)
    said: list[str] = []
    first = prepare_translation(data, tokenizer, tmp_path / "cache", say=said.append)
    assert any("held out" in sentence for sentence in said)
    said.clear()
    again = prepare_translation(data, tokenizer, tmp_path / "cache", say=said.append)
    assert again.train.folder == first.train.folder
    assert again.tokenizers.fingerprint == first.tokenizers.fingerprint
    assert not any("learning" in sentence for sentence in said)
    Path(data.pairs or "").write_text("1\t1\n2\t2\n" * 50)
    changed = prepare_translation(data, tokenizer, tmp_path / "cache", say=said.append)
    assert changed.train.folder != first.train.folder


def test_training_again_gives_the_same_bits(trained_run: TrainedRun, tmp_path: Path) -> None:
    from gnomon import api

    again = api.train(trained_run.recipe, data=trained_run.data, run=tmp_path / "again")
    for name in ("model.safetensors", "tokenizer.json", "training.safetensors"):
        one, two = (
            path / "checkpoints" / "step-00000040" / name for path in (trained_run.path, again.run)
        )
        assert one.read_bytes() == two.read_bytes(), name


def test_two_at_once_learn_one_vocabulary(tmp_path: Path) -> None:
    data = DataConfig(pairs=str(write_digits(tmp_path)), holdout=20)
    said: list[str] = []

    def prepare(_: int) -> str:
        found = prepare_translation(
            data, TokenizerConfig(vocab_size=280), tmp_path / "cache", say=said.append
        )
        return found.tokenizers.fingerprint

    with ThreadPoolExecutor(3) as threads:
        assert len(set(threads.map(prepare, range(3)))) == 1
    assert sum("learning" in sentence for sentence in said) == 1


def test_a_flipped_bit_in_a_checkpoint_is_noticed(trained_run: TrainedRun, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(trained_run.path / "checkpoints" / "step-00000040", folder)
    gnomon.load(folder)
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-100] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(ModelError, match="as they were written"):
        gnomon.load(folder)
    (folder / "training.json").unlink()  # a model folder without a checksum is taken as it is
    gnomon.load(folder)
