"""`gnomon align`: one line out per pair in, Pharaoh format or JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run_command as gnomon
from digits import TrainedRun


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "src.txt").write_text("1 2 3\n\n4\n7 8\n")
    (tmp_path / "tgt.txt").write_text("3 2 1\n\n\n87\n")
    return "--src", "src.txt", "--tgt", "tgt.txt"


def test_align_prints_one_line_a_pair(
    trained_run: TrainedRun, files: tuple[str, ...], tmp_path: Path
) -> None:
    done = gnomon("align", trained_run.path, *files, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().split("\n")
    assert len(lines) == 5
    assert lines[1] == lines[2] == ""
    first = [tuple(map(int, link.split("-"))) for link in lines[0].split()]
    assert sorted(target for _, target in first) == [0, 1, 2]
    assert all(0 <= source <= 2 for source, _ in first)

    soft = gnomon("align", trained_run.path, *files, "--soft", cwd=tmp_path)
    objects = [json.loads(line) for line in soft.stdout.splitlines()]
    assert [tuple(link) for link in objects[0]["links"]] == first
    assert objects[0]["source"] == ["1", "2", "3"]
    assert len(objects[0]["weights"]) == len(objects[0]["elsewhere"]) == 3
    assert sum(objects[0]["weights"][0]) + objects[0]["elsewhere"][0] == pytest.approx(1, abs=1e-3)

    shifted = gnomon("align", trained_run.path, *files, "--soft", "--shift", cwd=tmp_path)
    assert json.loads(shifted.stdout.splitlines()[0])["weights"] != objects[0]["weights"]

    both = gnomon(
        *("align", trained_run.path, *files, "--reverse", trained_run.path),
        *("--symmetrise", "union", "--target-units", "characters", "-o", "out"),
        cwd=tmp_path,
    )
    assert both.returncode == 0, both.stderr
    links = (tmp_path / "out").read_text().split("\n")
    assert {link.split("-")[0] for link in links[0].split()} == {"0", "1", "2"}
    assert {link.split("-")[1] for link in links[3].split()} == {"0", "1"}


def test_gold_links_give_the_error_rate(
    trained_run: TrainedRun, files: tuple[str, ...], tmp_path: Path
) -> None:
    plain = gnomon("align", trained_run.path, *files, cwd=tmp_path)
    (tmp_path / "gold.txt").write_bytes(plain.stdout)
    done = gnomon("align", trained_run.path, *files, "--gold", "gold.txt", cwd=tmp_path)
    assert done.stdout == plain.stdout
    assert b"aer 0.0" in done.stderr
    (tmp_path / "gold.txt").write_text("0-0\n")
    done = gnomon("align", trained_run.path, *files, "--gold", "gold.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert b"line by line" in done.stderr


def test_mistakes(trained_run: TrainedRun, files: tuple[str, ...], tmp_path: Path) -> None:
    for arguments, expected in (
        (("--layer", "9"), "layer 9"),
        (("--source-units", "letters"), "characters"),
        (("--reverse", trained_run.path, "--symmetrise", "both"), "intersection"),
        (("--reverse", "absent"), "absent"),
        (("--symmetrise", "union"), "--reverse"),
    ):
        done = gnomon("align", trained_run.path, *files, *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert expected in done.stderr.decode()
        assert done.stdout == b""
