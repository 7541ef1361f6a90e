"""`gnomon extend`: other positions for a trained model, as a folder that loads and fine-tunes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import gnomon as package
from command_line import run_command as gnomon
from digits import write_digits
from gnomon import api
from gnomon.errors import ModelError

SMALL = [
    "model.d_model=32",
    "model.attention.num_heads=4",
    "model.feedforward.size=48",
    "tokenizer.vocab_size=280",
    "training.tokens_per_batch=400",
    "training.max_steps=3",
    "training.precision=fp32",
    "decoding.beam=1",
]


def train(folder: Path, *settings: str) -> Path:
    data = write_digits(folder, num_pairs=60)
    return api.train("tiny", data=data, overrides=[*SMALL, *settings], run=folder / "run").run


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = ("model.position.kind=learned", "model.position.max_length=64", "data.max_length=63")
    return train(tmp_path_factory.mktemp("learned"), *settings)


@pytest.fixture(scope="module")
def rotary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("rotary"), "model.position.kind=rope")


def position(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]["position"]


def test_positions_are_replaced_and_the_model_is_fine_tuned(learned: Path, tmp_path: Path) -> None:
    out = tmp_path / "rope"
    done = gnomon("extend", str(learned), str(out), "--method", "rope")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == f"{out}\n"
    for part in ("weights dropped", "target_embedding.position.weight", "position.kind=rope"):
        assert part in done.stderr.decode().replace("\n", " ")
    assert position(out)["kind"] == "rope"
    assert not [name for name in load_file(out / "model.safetensors") if "position" in name]
    assert "gnomon extend" in (out / "README.md").read_text(encoding="utf-8")
    assert not (out / "training.json").exists()
    data = write_digits(tmp_path, num_pairs=60)
    overrides = [*SMALL, "model.position.kind=rope"]
    run = api.train("tiny", data=data, overrides=overrides, run=tmp_path / "run", start_from=out)
    assert gnomon("translate", str(run.run), text=b"3 1 2\n").returncode == 0


def test_a_table_is_resized(learned: Path, tmp_path: Path) -> None:
    changes = package.extend(learned, tmp_path / "long", method="resize", length=127).changes
    assert "model.position.max_length: 64 → 127" in changes
    weights = load_file(tmp_path / "long" / "model.safetensors")
    table = weights["source_embedding.position.weight"]
    model = api.load(learned).model
    assert model.source_embedding is not None and model.source_embedding.position is not None
    assert torch.equal(table[::2], model.source_embedding.position.weight)
    api.load(tmp_path / "long").translate(["1 " * 100])


@pytest.mark.parametrize("method", ["linear", "ntk", "yarn"])
def test_rotary_positions_are_stretched(rotary: Path, tmp_path: Path, method: Any) -> None:
    out = tmp_path / "far"
    done = api.extend(rotary, out, method=method, length=512, trained_length=128)
    rope = position(out)["rope"]
    assert (rope["scaling"], rope["factor"]) == (method, 4.0)
    assert rope["original_length"] == (128 if method == "yarn" else 512)
    assert not done.needs_training
    again = api.extend(out, tmp_path / "again", method=method, factor=8.0, trained_length=128)
    assert position(again.folder)["rope"]["factor"] == 8.0
    api.load(out).translate(["1 2 3"])


def test_what_the_folder_knows_need_not_be_said(rotary: Path, tmp_path: Path) -> None:
    longest = json.loads((api.model_folder(rotary) / "config.json").read_text(encoding="utf-8"))
    known = max(longest["longest_source"], longest["longest_target"])
    api.extend(rotary, tmp_path / "out", method="yarn", length=10 * known)
    assert position(tmp_path / "out")["rope"]["original_length"] == known
    assert position(tmp_path / "out")["rope"]["factor"] == 10.0
    # A language model says how much of a text it saw at once.
    config = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    for key in ("longest_source", "longest_target"):
        del config[key]
    config |= {"context": 77}
    config["model"]["position"]["rope"]["scaling"] = "none"
    (tmp_path / "out" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    api.extend(tmp_path / "out", tmp_path / "far", method="yarn", length=154)
    assert position(tmp_path / "far")["rope"]["original_length"] == 77
    api.extend(rotary, tmp_path / "dynamic", method="dynamic_ntk")
    assert position(tmp_path / "dynamic")["rope"]["factor"] == 1.0


def test_a_classifier_reads_on_where_it_was_cut(tmp_path: Path) -> None:
    rows = "".join(f"{word} {n},{word}\n" for n in range(40) for word in ("yes", "no"))
    (tmp_path / "data.csv").write_text("text,label\n" + rows, encoding="utf-8")
    both = ["tokenizer.vocab_size=280", "training.max_steps=3", "training.precision=fp32"]
    own = {
        "classifier": ["model.d_model=32", "model.position.kind=rope", "data.max_length=16"],
        "bilstm": [],
    }
    trained = {
        preset: api.train(
            preset,
            data=tmp_path / "data.csv",
            overrides=[*both, *settings],
            run=tmp_path / preset,
            check=False,
        ).run
        for preset, settings in own.items()
    }
    done = api.extend(trained["classifier"], tmp_path / "far", method="yarn", length=64)
    assert "max_length: 16 → 64" in done.changes
    classifier = api.load(tmp_path / "far")
    assert classifier.max_length == 64
    [found] = classifier.classify(["yes " * 30])
    assert found.cut == 0
    api.extend(trained["classifier"], tmp_path / "any", method="dynamic_ntk")
    assert api.load(tmp_path / "any").max_length is None
    with pytest.raises(ModelError, match="Only a Transformer"):
        api.extend(trained["bilstm"], tmp_path / "out", method="rope")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no_length": ({"method": "linear"}, "how far"),
    "both": ({"method": "linear", "factor": 2.0, "length": 99}, "Either"),
    "not_further": ({"method": "yarn", "length": 9, "trained_length": 9}, "reach further"),
    "without_effect": ({"method": "ntk", "factor": 2.0, "theta": 3.0}, "theta"),
    "zero": ({"method": "ntk", "factor": 0.0}, "positive numbers"),
    "negative": ({"method": "yarn", "length": 99, "trained_length": -9}, "positive numbers"),
    "not_a_number": ({"method": "ntk", "factor": math.nan}, "positive numbers"),
    "other_method": ({"method": "longrope"}, "A method is one of"),
    "another_kind": ({"method": "resize", "length": 99}, "learned positions"),
    "again": ({"method": "rope"}, "rotary already"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_slips_are_refused_and_nothing_is_written(
    rotary: Path, tmp_path: Path, case: tuple[dict[str, Any], str]
) -> None:
    options, named = case
    with pytest.raises(ModelError, match=named):
        api.extend(rotary, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_over(rotary: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist yet"):
        api.extend(rotary, tmp_path, method="ntk", factor=2.0)
    done = gnomon("extend", str(rotary), str(tmp_path), "--method", "ntk", "--factor", "2")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr.decode()
