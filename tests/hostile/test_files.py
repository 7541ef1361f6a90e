"""Hostile files and folders: each mistake named, no traceback, nothing half written."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from digits import TrainedRun, write_digits
from hostile.running import Command

LONG = "n" * 300


def _folder(path: Path) -> None:
    path.mkdir()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path may have 107 bytes only
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


def _nothing(path: Path) -> None:
    pass


# What stands where a text file should, and what is said of it as training text and as input.
PLACES: dict[str, tuple[str, Callable[[Path], None], str, str]] = {
    "absent": ("text", _nothing, "must exist", "must exist"),
    "a folder": ("text", _folder, "folder", "folder"),
    "a link to itself": ("text", _loop, "text", "text"),
    "a link to nothing": ("text", _dangling, "must exist", "must exist"),
    "under a file": ("ordinary/text", _nothing, "ordinary/text", "ordinary/text"),
    "a very long name": (LONG, _nothing, "nnn", "nnn"),
    "a socket": ("text", _socket, "pipe or device", "text"),
    "a named pipe": ("text", _fifo, "pipe or device", ""),
    "an empty name": ("", _nothing, "", ""),
    "the terminal": ("/dev/tty", _nothing, "", ""),
}


@pytest.mark.parametrize("name", [name for name in PLACES if name not in ("a named pipe",)])
def test_as_input(name: str, command: Command, trained_run: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("12\n")
    place, make, _, says = PLACES[name]
    make(tmp_path / place) if place else None
    done = command("translate", trained_run.path, "--input", place, "--output", "out.txt")
    assert done.code == 2, done.message
    assert "error:" in done.message
    assert says in done.message
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize("name", PLACES)
def test_as_training_text(name: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("12\n")
    place, make, says, _ = PLACES[name]
    make(tmp_path / place) if place else None
    for options in (["--data", place], ["--src", place, "--tgt", "ordinary"]):
        done = command("prepare", "tiny", *options, "--run", "runs/x")
        assert done.code == 2, done.message
        assert "error:" in done.message
        assert says in done.message


def test_devices_as_training_text(command: Command) -> None:
    for recipe, device in (("tiny", "/dev/null"), ("tiny", "/dev/zero"), ("encoder", "/dev/null")):
        verb = "prepare" if recipe == "tiny" else "train"
        done = command(verb, recipe, "--data", device, "--run", "runs/x")
        assert done.code == 2, done.message
        assert "pipe or device" in done.message


def test_a_named_pipe_is_read_to_its_end(
    command: Command, trained_run: TrainedRun, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"12\n34\n",))
    writer.start()
    done = command("translate", trained_run.path, "--input", "pipe")
    writer.join()
    assert done.code == 0, done.message
    assert done.out.count(b"\n") == 2


# Where the output should go, and what is said where it cannot.
OUTPUTS = {
    "a folder": ("folder", 2, "folder"),
    "under a file": ("ordinary/out", 2, "ordinary"),
    "a full disk": ("/dev/full", 2, "No space left"),
    "a very long name": (LONG, 2, "nnn"),
    "nothing": ("/dev/null", 0, ""),
    "a new folder": ("new/out", 0, ""),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_as_output(name: str, command: Command, trained_run: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "ordinary").write_text("12\n")
    place, code, says = OUTPUTS[name]
    done = command("translate", trained_run.path, "--output", place, text=b"12\n")
    assert done.code == code, done.message
    assert says in done.message
    assert (tmp_path / "ordinary").read_text() == "12\n"
    assert not list((tmp_path / "folder").iterdir())


def test_what_is_no_plain_file_is_not_replaced(command: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    done = command("needle", "--write", "pipe", "--documents", "2", "--words", "20")
    reader.join(timeout=30)
    assert done.code == 0, done.message
    assert (tmp_path / "pipe").is_fifo()
    assert found[0].count(b"\n") == 2


def test_the_input_may_be_the_output(
    command: Command, trained_run: TrainedRun, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("12\n" * 3000)
    done = command("translate", trained_run.path, "-i", "text", "-o", "text", "--beam", "1")
    assert done.code == 0, done.message
    assert (tmp_path / "text").read_bytes().count(b"\n") == 3000


@pytest.fixture
def copied_model(trained_run: TrainedRun, tmp_path: Path) -> Path:
    newest = max((trained_run.path / "checkpoints").glob("step-*"))
    return shutil.copytree(newest, tmp_path / "model")


# What happens to a file of a model folder.
DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "weights cut off": ("model.safetensors", lambda file: os.truncate(file, 100)),
    "weights empty": ("model.safetensors", lambda file: file.write_bytes(b"")),
    "weights gone": ("model.safetensors", Path.unlink),
    "weights of something else": (
        "model.safetensors",
        lambda file: file.write_bytes(b"\x02" + bytes(7) + b"{}"),
    ),
    "config empty": ("config.json", lambda file: file.write_text("")),
    "config no JSON": ("config.json", lambda file: file.write_bytes(b"\xff\xfe{")),
    "config a list": ("config.json", lambda file: file.write_text("[]")),
    "config of another time": (
        "config.json",
        lambda file: file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99})),
    ),
    "config without content": ("config.json", lambda file: file.write_text("{}")),
    "tokenizer gone": ("tokenizer.json", Path.unlink),
    "tokenizer empty": ("tokenizer.json", lambda file: file.write_text("")),
    "tokenizer no JSON": ("tokenizer.json", lambda file: file.write_bytes(b"\x00\xff")),
    "tokenizer of nothing": ("tokenizer.json", lambda file: file.write_text("{}")),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_model_folders(name: str, command: Command, copied_model: Path) -> None:
    file, damage = DAMAGE[name]
    damage(copied_model / file)
    done = command("translate", copied_model, text=b"12\n")
    if name == "config of another time":  # a key nobody reads
        assert done.code in (0, 2)
        return
    assert done.code == 2, done.message
    assert "error:" in done.message
    assert done.out == b""


RECIPES = {
    "no text": (b"\xff\xfe\x00", "UTF-8"),
    "no TOML": (b"name = ", "TOML"),
    "NUL": (b'name = "a\0b"', "TOML"),
    "a name that is a path": (b'name = "../../x"', "folder name"),
    "a list for a table": (b"data = [1, 2]", "data"),
    "a number for a text": (b"[tokenizer]\nkind = 3\n", "tokenizer.kind"),
    "deeply nested": (b"a = " + b"[" * 5000 + b"]" * 5000, ""),
    "an endless number": (b"[training]\nmax_steps = " + b"9" * 5000, ""),
    "not a number": (b"[schedule]\npeak = nan\n", "peak"),
    "infinity": (b"[optimizer]\nclip_norm = inf\n", ""),
    "unknown script": (b'[cleaning]\nsource_scripts = ["Klingon"]\n', "Klingon"),
    "unknown action": (b'[cleaning]\ntoo_long = "delete"\n', "cleaning.too_long"),
    "unknown key": (b"[cleaning]\ntolong = 1\n", "too_long"),
    "threshold out of range": (b"[cleaning]\nmin_letters = 7.0\n", "min_letters"),
}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes(name: str, command: Command, tmp_path: Path) -> None:
    content, says = RECIPES[name]
    (tmp_path / "my.toml").write_bytes(content)
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    done = command("prepare", "my.toml", "--data", "pairs.tsv")
    assert done.code == 2, done.message
    assert says in done.message


@pytest.mark.parametrize(
    "override",
    [
        *(
            "",
            "=",
            "a",
            "a=1",
            "model=3",
            "model.d_model.x=1",
            "a=" + "[" * 5000,
            "a=" + "9" * 5000,
        ),
        *("model.dropout=nan", "training.seed=-1", "data.max_length=1e9", "tokenizer.vocab_size=0"),
        *("data.pairs=\0", "name=\n", "data.holdout=-5", "training.max_steps=0"),
    ],
)
def test_overrides(override: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\n" * 20)
    done = command("prepare", "tiny", "--data", "pairs.tsv", "--run", "runs/x", "--set", override)
    assert done.code == 2, (override[:40], done.message)
    assert "error:" in done.message


def test_a_folder_as_recipe(command: Command, tmp_path: Path) -> None:
    (tmp_path / "my.toml").mkdir()
    assert command("prepare", "my.toml").code == 2


def test_a_cache_that_cannot_be_written(command: Command, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a house\tein Haus\n" * 30)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".prepared").write_text("in the way")
    done = command("prepare", "tiny", "--data", "pairs.tsv", "--run", "runs/x")
    assert done.code == 2
    assert ".prepared" in done.message
    assert (tmp_path / "runs" / ".prepared").read_text() == "in the way"


def test_a_name_that_is_no_text(command: Command, tmp_path: Path) -> None:
    """Bytes that are no UTF-8 cannot stand in a recipe or a manifest."""
    data = write_digits(tmp_path, num_pairs=30)
    foreign = tmp_path / os.fsdecode(b"r\xff")
    done = command("train", "tiny", "--data", data, "--run", foreign)
    assert done.code == 2
    assert "a run's path must be valid UTF-8" in done.message
    done = command("train", "tiny", "--data", data.rename(foreign))
    assert done.code == 2
    assert "paths of text files must be valid UTF-8" in done.message


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--run", "recipe.toml"), "recipe.toml is a file"),
        (("--accept", "no-such-check"), "a check is named by its code"),
        (("--set", "training.device=cuda"), "needs a GPU"),
    ],
)
def test_slips_are_told_before_the_text_is_read(
    options: tuple[str, str], says: str, command: Command, tmp_path: Path
) -> None:
    if "cuda" in options[1] and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    (tmp_path / "recipe.toml").write_text('name = "slips"\n')
    done = command("train", "recipe.toml", "--data", "missing.tsv", *options)
    assert done.code == 2
    assert says in done.message
    assert "missing.tsv" not in done.message
