"""`gnomon score`: one line out per pair in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command_line import run_command as gnomon
from digits import TrainedRun


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    (tmp_path / "src.txt").write_text("123\n\n \n45\n")
    (tmp_path / "ref.txt").write_text("321\n\n7\n54\n")
    (tmp_path / "both.tsv").write_text("123\t321\n\t\n \t7\n45\t54\n")
    return tmp_path


def test_score_prints_one_line_a_pair(trained_run: TrainedRun, pairs: Path) -> None:
    files = ("--src", "src.txt", "--ref", "ref.txt")
    done = gnomon("score", trained_run.path, *files, cwd=pairs)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert len(rows) == 4
    assert rows[1] == ["0.000000", "0", "nan", "nan"]
    assert rows[2][0] == "nan"
    assert b"line 3 has no score" in done.stderr
    log_prob, tokens, mean, perplexity = map(float, rows[0])
    assert tokens == 4
    assert mean == pytest.approx(log_prob / 4, abs=1e-5)
    assert perplexity > 1
    again = gnomon("score", trained_run.path, "--data", "both.tsv", "-o", "out", cwd=pairs)
    assert again.stdout == b""
    assert (pairs / "out").read_bytes() == done.stdout

    as_json = gnomon("score", trained_run.path, "--json", *files, cwd=pairs)
    objects = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert objects[0]["log_prob"] == pytest.approx(log_prob, abs=1e-5)
    assert objects[0]["pieces"] == ["3", "2", "1", "</s>"]
    assert objects[2]["log_prob"] is None
    assert "blank" in objects[2]["reason"]


def test_mistakes(trained_run: TrainedRun, pairs: Path) -> None:
    for arguments, expected in (
        ((), "no file"),
        (("--src", "src.txt"), "source and reference"),
        (("--src", "src.txt", "--ref", "ref.txt", "--data", "both.tsv"), "one file of pairs"),
        (("--src", "src.txt", "--ref", "both.tsvx"), "both.tsv"),
        (("--src", "src.txt", "--tgt", "both.tsvx"), "both.tsv"),
        (("--data", "both.tsv", "--source-field", "en"), "which is read as TSV"),
        (("--data", "both.tsv", "-o", "."), "'.' (a folder)"),
        (("--data", "both.tsv", "-o", "/proc/x"), "'/proc/x' (No such file or directory)"),
    ):
        done = gnomon("score", trained_run.path, *arguments, cwd=pairs)
        assert done.returncode == 2
        assert expected in done.stderr.decode(), expected
        assert done.stdout == b""


def test_output_keeps_links_permissions_and_what_it_is_appended_to(
    trained_run: TrainedRun, pairs: Path
) -> None:
    data = ("--data", "both.tsv")
    (pairs / "real").write_text("old")
    (pairs / "real").chmod(0o640)
    (pairs / "link").symlink_to("real")
    assert gnomon("score", trained_run.path, *data, "-o", "link", cwd=pairs).returncode == 0
    assert (pairs / "link").is_symlink()
    assert (pairs / "real").read_text().count("\n") == 4
    assert (pairs / "real").stat().st_mode & 0o777 == 0o640
    before = os.umask(0o077)
    try:
        gnomon("score", trained_run.path, *data, "-o", "new", cwd=pairs)
    finally:
        os.umask(before)
    assert (pairs / "new").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("verb", ["score", "align"])
def test_long_pairs_are_named_and_then_counted(
    verb: str, trained_run: TrainedRun, tmp_path: Path
) -> None:
    lines = ["12\t21", "1" * 200_000 + "\t1", *(f"{'1' * 60}\t{n}" for n in range(12))]
    (tmp_path / "long.tsv").write_text("\n".join(lines) + "\n")
    done = gnomon(verb, trained_run.path, "--data", "long.tsv", cwd=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 14
    told = done.stderr.decode()
    without = {"score": "line 2 has no score: ", "align": "line 2 is not aligned: "}[verb]
    assert f"{without}200001 source and 2 target tokens are more than the 8192" in told
    assert told.count("longer than any this model was trained on; do not trust") == 10
    assert "line 3 is longer" in told
    assert "12 of 14 pairs are longer than any this model was trained on; only the first" in told
