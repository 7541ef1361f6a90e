"""Language models from the command line: generate, score, evaluate by position."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_line import run_command
from gnomon import api

RECIPE = """
name = "letters"
task = "language_model"
[data]
context = 16
documents_are = "paragraphs"
[tokenizer]
kind = "characters"
[model]
family = "decoder"
d_model = 32
num_decoder_layers = 1
attention.num_heads = 2
feedforward.size = 64
norm.placement = "pre"
dropout = 0.0
position.kind = "rope"
[objective]
label_smoothing = 0.0
[schedule]
kind = "constant"
peak = 1e-2
warmup_steps = 10
[training]
tokens_per_batch = 512
max_steps = 120
validate_every = 60
checkpoint_every = 60
precision = "fp32"
"""


@dataclass
class Answer:
    stdout: str
    stderr: str


def gnomon(*arguments: str, stdin: str = "", code: int = 0) -> Answer:
    done = run_command(*arguments, text=stdin.encode())
    assert done.returncode == code, done.stderr.decode()
    return Answer(done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language")
    (folder / "r.toml").write_text(RECIPE)
    # After a letter comes another of it, or a line break: only the one before says which.
    text = "\n\n".join(f"{letter * 2}\n" * 12 for letter in "abcdefg" * 30)
    (folder / "text.txt").write_text(text)
    api.train(
        folder / "r.toml",
        data=folder / "text.txt",
        valid_data=folder / "text.txt",
        run=folder / "run",
    )
    return folder / "run"


def test_one_line_out_for_each_line_in(run: Path) -> None:
    found = gnomon("generate", str(run), "--max-tokens", "20", stdin="aa\n\nbb\n")
    lines = found.stdout.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("\\naa\\naa\\n")


def test_a_prompt_is_streamed_and_stops(run: Path) -> None:
    found = gnomon("generate", str(run), "-p", r"aa\naa", "--stop", r"a\na", "--escapes")
    assert found.stdout == "\na\n"
    asked = ("generate", str(run), "-p", "aa", "--json", "--max-tokens", "5")
    result = json.loads(gnomon(*asked).stdout)
    assert result["finish"] == "length"
    assert result["num_tokens"] == 5


def test_outputs_beyond_the_training_are_named(run: Path) -> None:
    beyond = "longer, prompt included, than what the model saw at once in training"
    found = gnomon("generate", str(run), "--prompt", "aa\n", "--max-tokens", "30")
    assert found.stderr.count(f"the output is {beyond}, after 30 tokens") == 1
    found = gnomon("generate", str(run), "--max-tokens", "30", stdin="a\nb\n")
    assert f"prompt 2 is {beyond}" in found.stderr
    found = gnomon("generate", str(run), "--prompt", "aa\n", "--max-tokens", "5")
    assert found.stderr == ""


def test_what_is_no_text_is_told(run: Path) -> None:
    for verb in ("score", "generate"):
        done = run_command(verb, str(run), text=b"aa\nb\xff\n")
        assert (done.returncode, done.stdout.count(b"\n")) == (0, 2)
        assert "1 invalid UTF-8 sequences" in done.stderr.decode()


def test_options_without_effect_are_refused(run: Path) -> None:
    found = gnomon("generate", str(run), "--temperature", "0.5", stdin="a\n", code=2)
    assert "--temperature" in found.stderr
    found = gnomon("translate", str(run), stdin="a\n", code=2)
    assert "gnomon generate" in found.stderr
    found = gnomon("generate", str(run), "-p", "a", "--chat", code=2)
    assert "chat template" in found.stderr


def test_whatever_ends_a_line_is_written_so_that_it_does_not() -> None:
    from gnomon.cli.generate import _escaped, _unescaped

    text = "a\\b\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029 \\n"
    assert _escaped(text).splitlines() == [_escaped(text)]
    assert _unescaped(_escaped(text)) == text
    assert _unescaped(r"\t \xzz \q") == "\t \\xzz \\q"


def test_a_slip_of_the_pen_in_a_folder_is_told(run: Path, tmp_path: Path) -> None:
    folder = next((run / "checkpoints").glob("step-*"))
    written = json.loads((folder / "config.json").read_text())
    layers = {**written["model"], "num_decoder_layers": 1_000_000}
    for changes, message in (
        ({"contxt": 5}, "contxt"),
        ({"model": layers}, "1,000,000, but"),
        ({"generation": [1]}, "generation [1]"),
    ):
        copied = tmp_path / message[:6]
        shutil.copytree(folder, copied)
        (copied / "config.json").write_text(json.dumps(written | changes))
        assert message in gnomon("score", str(copied), stdin="a\n", code=2).stderr
    copied = tmp_path / "deep"
    shutil.copytree(folder, copied)
    (copied / "config.json").write_text("[" * 100_000)
    assert "cannot be read" in gnomon("score", str(copied), stdin="a\n", code=2).stderr


def test_score(run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("aa\nag\n")
    lines = gnomon("score", str(run), "--data", str(tmp_path / "lines.txt")).stdout.splitlines()
    (likely, odd) = ([float(value) for value in line.split("\t")] for line in lines)
    assert likely[2] > odd[2]
    assert likely[3] == pytest.approx(math.exp(-likely[0] / likely[1]), rel=1e-5)


def test_evaluate_by_position(run: Path, tmp_path: Path) -> None:
    found = gnomon("evaluate", str(run), "--by-position", "--length", "32")
    scores = {line.split("\t")[0]: line.split("\t") for line in found.stdout.splitlines()}
    assert float(scores["perplexity"][1]) == pytest.approx(math.exp(float(scores["nll"][1])), 1e-3)
    assert "length:32" in scores["nll"][2]
    rows = [line.split("\t") for line in found.stdout.split("# by position")[1].splitlines()[1:]]
    assert [row[0] for row in rows] == ["1", "2 to 3", "4 to 7", "8 to 15", "16 to 31", "32"]
    report = json.loads(gnomon("evaluate", str(run), "--json").stdout)
    counts = [int(row[1].replace(",", "")) for row in rows]
    assert sum(row["tokens"] for row in report["positions"]) == sum(counts)
    assert float(rows[0][3]) > float(rows[2][3])  # more in view, less to guess


def test_ngrams_stand_beside(run: Path, tmp_path: Path) -> None:
    found = gnomon("evaluate", str(run), "--ngrams", "2")
    rows = [line.split("\t") for line in found.stdout.split("# beside")[1].splitlines()]
    names, (name, *values) = rows[0], rows[1]
    assert (name, names[1:]) == (
        "2-grams",
        [line.split("\t")[0] for line in found.stdout.splitlines()[:4]],
    )
    report = json.loads(gnomon("evaluate", str(run), "--ngrams", "1", "--json").stdout)
    assert report["baselines"]["1-grams"][0]["value"] > 1.5 * float(values[0])
    # A model folder alone does not know its training text.
    folder = next((run / "checkpoints").glob("step-*"))
    copied = tmp_path / "model"
    copied.mkdir()
    for file in folder.iterdir():
        if file.is_file():
            (copied / file.name).write_bytes(file.read_bytes())
    (tmp_path / "text.txt").write_text("aa\n")
    asked = ("evaluate", str(copied), "--data", str(tmp_path / "text.txt"), "--ngrams", "2")
    assert "name the run" in gnomon(*asked, code=2).stderr


def test_overlapping_windows_know_more(run: Path) -> None:
    nll = {
        stride: json.loads(
            gnomon("evaluate", str(run), "--json", "--length", "8", "--stride", stride).stdout
        )["scores"][0]["value"]
        for stride in ("8", "4")
    }
    assert nll["4"] < nll["8"]
    found = gnomon("evaluate", str(run), "--length", "8", "--stride", "9", code=2)
    assert "stride" in found.stderr


def test_needles_are_asked_for_at_each_length_and_distance(run: Path, tmp_path: Path) -> None:
    picture = tmp_path / "found.png"
    asked = ("--length", "400", "--length", "600", "--documents", "2", "--picture", str(picture))
    found = gnomon("needle", str(run), *asked)
    rows = [line.split("\t") for line in found.stdout.splitlines()[1:]]
    cells = [(int(length), int(distance)) for length, distance, *_ in rows]
    assert [cell for cell in cells if cell[1] in (128, 256)] == [
        (400, 128),
        (400, 256),
        (600, 128),
        (600, 256),
    ]
    assert float(rows[0][3]) == 0.0  # it knows nothing but doubled letters
    assert picture.stat().st_size > 1000
    report = json.loads(gnomon("needle", str(run), *asked[:-2], "--json").stdout)
    assert [(row["length"], row["distance"]) for row in report["rows"]] == cells
    usual = gnomon("needle", str(run), "--documents", "1").stdout.splitlines()[1:]
    assert {line.split("\t")[0] for line in usual} == {"128"}  # in 64 no document fits
    other = json.loads(gnomon("needle", str(run), *asked[:-2], "--seed", "2", "--json").stdout)
    assert other["rows"][0]["gain"] != report["rows"][0]["gain"]


def test_needles_around_a_text_and_to_learn_from(run: Path, tmp_path: Path) -> None:
    text = tmp_path / "needles.txt"
    written = gnomon("needle", "--write", str(text), "--documents", "3", "--words", "50")
    assert written.stdout == f"{text}\n"
    assert len(text.read_text().splitlines()) == 3
    (tmp_path / "own.txt").write_text("aa bb cc\n" * 200)
    asked = ("needle", str(run), "--length", "400", "--documents", "1", "--json")
    own = json.loads(gnomon(*asked, "--data", str(tmp_path / "own.txt")).stdout)
    assert own["rows"][0]["gain"] != json.loads(gnomon(*asked).stdout)["rows"][0]["gain"]
    assert "--data" in gnomon("needle", "--write", "f", "--data", "f", code=2).stderr
    assert "--words" in gnomon("needle", str(run), "--words", "5", code=2).stderr
    assert "model" in gnomon("needle", code=2).stderr
    assert "must fit" in gnomon("needle", str(run), "--length", "9", code=2).stderr
