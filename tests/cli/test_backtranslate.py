"""`gnomon backtranslate`: pairs into a file, recipe lines to standard output."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from command_line import run_command as gnomon
from digits import TrainedRun


def test_pairs_and_recipe_lines(trained_run: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "mono.txt").write_text("123\n\n45\n9876\n")
    arguments = ("backtranslate", trained_run.path, "--mono", "mono.txt", "--max-ratio", "9")
    done = gnomon(*arguments, "-o", "bt.tsv", "--beam", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = tomllib.loads(done.stdout.decode())
    assert table["data"]["sources"] == [{"pairs": "bt.tsv", "tags": ["<bt>"]}]
    assert b"from 4 lines" in done.stderr
    assert b"1 left out, empty line: lines 2" in done.stderr
    targets = [line.split("\t")[1] for line in (tmp_path / "bt.tsv").read_text().splitlines()]
    assert set(targets) <= {"123", "45", "9876"}
    again = gnomon(*arguments, "-o", "bt.tsv", cwd=tmp_path)
    assert again.returncode == 2
    assert b"not overwritten" in again.stderr


def test_a_tag_that_no_recipe_takes_is_refused_before_the_work(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    mono, output = tmp_path / "mono.txt", tmp_path / "out.tsv"
    mono.write_text("12\n", encoding="utf-8")
    arguments = ("backtranslate", trained_run.path, "--mono", mono, "-o", output)
    done = gnomon(*arguments, "--synthetic-tag", "<a b>", cwd=tmp_path)
    assert done.returncode == 2
    assert b"is no tag" in done.stderr
    assert not output.exists()


@pytest.mark.parametrize(("output", "says"), [(".", "a folder"), ("bt.parquet", "TSV or JSON")])
def test_an_output_that_could_not_be_read_again_is_refused(
    output: str, says: str, trained_run: TrainedRun, tmp_path: Path
) -> None:
    (tmp_path / "mono.txt").write_text("12\n")
    arguments = ("backtranslate", trained_run.path, "--mono", "mono.txt", "-o", output)
    done = gnomon(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["mono.txt"]


def test_lines_are_written_as_the_name_is_read(trained_run: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "mono.txt").write_text("123\n45\n")
    arguments = ("backtranslate", trained_run.path, "--mono", "mono.txt", "--max-ratio", "99")
    assert gnomon(*arguments, "-o", "bt.json", cwd=tmp_path).returncode == 0
    assert (tmp_path / "bt.json").read_text().startswith('{"source": ')


def test_no_pairs_give_no_recipe_lines(trained_run: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "mono.txt").write_text("\n\n")
    arguments = ("backtranslate", trained_run.path, "--mono", "mono.txt", "-o", "bt.tsv")
    done = gnomon(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"no pair to add" in done.stderr
