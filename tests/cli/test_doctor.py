"""`gnomon doctor`: what is printed where, and with which exit code it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from command_line import invoke as gnomon
from command_line import run_command
from digits import TrainedRun

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 50)
        self.causal = causal

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1)) if self.causal else None
        return self.head(self.layer(self.embed(ids), src_mask=mask, is_causal=self.causal))

def sound():
    return {"module": Model(True), "batch": {"ids": torch.randint(1, 50, (2, 8))}}

def leaky():
    return {"module": Model(False), "batch": {"ids": torch.randint(1, 50, (2, 8))}}

def printing():
    class Printing(Model):
        def forward(self, ids):
            print("seen", ids.shape)
            return super().forward(ids)
    print("building")
    return {**sound(), "module": Printing(True)}

def leaving():
    raise SystemExit(0)

def painting():
    raise ValueError("red: \\x1b[31m and\\n lines")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODEL)
    return path


def test_a_failed_check_is_told_in_full_and_ends_with_1(file: Path) -> None:
    done = gnomon("doctor", f"{file}:leaky", "--causal", "--only", "future-leak")
    assert done.exit_code == 1
    text = " ".join(done.stdout.split())
    for part in (
        "FAIL",
        "masks/future-leak",
        "seen other tokens from",
        "cause",
        "mend",
        "1 failed",
    ):
        assert part in text, part
    assert "ran the file's code" in done.stderr and "1 check, " in done.stderr
    assert all(line == line.rstrip() and len(line) <= 100 for line in done.stdout.splitlines())


def test_the_help_shows_every_kind_of_target() -> None:
    text = " ".join(gnomon("doctor", "--help").stdout.split())
    for example in ("runs/small", "step-00002000", "tiny", "models/bert", "train.py:patient",
                    "corpus/", "bundles/step-00000812"):  # fmt: skip
        assert example in text, example
    page = (Path(__file__).parents[2] / "docs/how-to/doctor.md").read_text(encoding="utf-8")
    for command in re.findall(r"- [a-z ,]+: (gnomon doctor \S+)", text):
        assert f"`{command}" in page, command


def test_what_passes_is_counted_and_ends_with_0(file: Path) -> None:
    done = gnomon("doctor", f"{file}:sound", "--causal", "--only", "future-leak")
    assert done.exit_code == 0
    assert "1 passed" in done.stdout and "future-leak" not in done.stdout
    shown = gnomon("doctor", f"{file}:sound", "--causal", "--only", "future-leak", "--verbose")
    assert "masks/future-leak" in shown.stdout


def test_declared_intent_decides(file: Path) -> None:
    done = gnomon(
        "doctor", f"{file}:leaky", "--bidirectional", "--only", "future-leak", "--verbose"
    )
    assert done.exit_code == 0 and "n/a" in done.stdout and "declared" in done.stdout


def test_json_and_sarif_hold_the_finding(file: Path) -> None:
    common = ("doctor", f"{file}:leaky", "--causal", "--only", "future-leak")
    report = json.loads(gnomon(*common, "--json").stdout)
    (finding,) = report["findings"]
    assert (finding["code"], finding["verdict"]) == ("future-leak", "fail")
    assert finding["numbers"]["moved"] > 0 and report["counts"]["fail"] == 1
    log = json.loads(gnomon(*common, "--sarif").stdout)
    (result,) = log["runs"][0]["results"]
    assert (result["ruleId"], result["level"], result["kind"]) == ("future-leak", "error", "fail")


@pytest.mark.parametrize(
    "arguments",
    [
        ("{file}:leaky", "--only", "no-such-check"),
        ("{file}:leaky", "--symptom", "headache"),
        ("{file}:leaky", "--json", "--sarif"),
        ("{file}:nothing",),
        ("{file}:leaving",),
        ("{file}:sound", "--html", "{file}/page.html"),
        ("{file}:sound", "--src", "{file}.no-such-file"),
        ("{file}:sound", "--device", "tpu"),
        ("{file}",),
        ("--explain", "no-such-check"),
        ("--src", "{file}"),
        (),
    ],
)
def test_mistakes_end_with_2_and_a_mend(file: Path, arguments: tuple[str, ...]) -> None:
    done = run_command("doctor", *(one.format(file=file) for one in arguments))
    assert done.returncode == 2
    assert b"error:" in done.stderr and b"Traceback" not in done.stderr
    assert not done.stdout


def test_what_the_code_prints_is_no_part_of_the_report(file: Path) -> None:
    done = gnomon("doctor", f"{file}:printing", "--only", "noise-in-eval", "--json")
    assert json.loads(done.stdout)["findings"][0]["code"] == "noise-in-eval"
    assert "building" in done.stderr
    assert "seen torch.Size" in done.stderr


def test_what_the_code_raises_does_not_steer_the_terminal(file: Path) -> None:
    done = run_command("doctor", f"{file}:painting")
    assert done.returncode == 2
    assert b"and lines" in done.stderr
    assert b"\x1b[31m" not in done.stderr


def test_the_checks_are_listed_and_explained() -> None:
    rows = [line.split("\t") for line in gnomon("doctor", "--list").stdout.splitlines()]
    assert ["future-leak", "masks", "probe", "No position sees a later one"] in rows
    listed = json.loads(gnomon("doctor", "--list", "--json").stdout)
    assert [each["code"] for each in listed] == [row[0] for row in rows]
    page = gnomon("doctor", "--explain", "future-leak").stdout
    assert page.startswith("# future-leak") and "def patient():" in page


def test_a_run_is_examined_and_left_as_it_was(trained_run: TrainedRun) -> None:
    before = {path: path.read_bytes() for path in trained_run.path.rglob("*") if path.is_file()}
    done = gnomon("doctor", trained_run.path, "--cost", "probe")
    assert done.exit_code == 0, done.stdout
    after = {path: path.read_bytes() for path in trained_run.path.rglob("*") if path.is_file()}
    assert before == after


def test_a_recipe_s_suppressions_are_kept_to(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    text = "[model]\nd_model = 32\nnum_encoder_layers = 1\nnum_decoder_layers = 1\n"
    text += "attention.num_heads = 2\n[tokenizer]\nvocab_size = 300\n"
    recipe.write_text(text + '[doctor.suppress]\nno-such-check = "why"\n')
    done = run_command("doctor", recipe, "--only", "masks")
    assert done.returncode == 2 and b"no-such-check" in done.stderr
    recipe.write_text(text + '[doctor.suppress]\nfuture-leak = ""\n')
    done = run_command("doctor", recipe, "--only", "masks")
    assert done.returncode == 2 and b"must say why" in done.stderr
    recipe.write_text(text + '[doctor.suppress]\nfuture-leak = "known"\n')
    assert gnomon("doctor", recipe, "--only", "future-leak").exit_code == 0
