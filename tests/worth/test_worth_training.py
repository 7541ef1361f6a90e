"""The benchmark of training options, on trainings of eight steps."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.worth import training

ONLY = (
    "baseline",
    "dirty, cleaned",
    "half + back, sampled, tagged",
    "half + other domain, tagged",
)


def test_each_kind_of_experiment_gives_its_row_and_is_not_trained_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = random.Random(1)
    for name, count in (("train", 120), ("valid", 8), ("test", 8), ("other", 120)):
        rows = [" ".join(draw.choices("abcdefgh", k=6)) for _ in range(count)]
        (tmp_path / f"{name}.en").write_text("".join(f"{row}\n" for row in rows))
        (tmp_path / f"{name}.de").write_text("".join(f"{row.upper()}\n" for row in rows))
    command = ["training", "--out", str(tmp_path / "out"), "--tokenize", "none"]
    for name in ("train", "valid", "test", "other"):
        command += [f"--{name}", str(tmp_path / f"{name}.en"), str(tmp_path / f"{name}.de")]
    command += ["--pairs", "120", "--steps", "8", "--tokens", "500", "--only", *ONLY]
    monkeypatch.setattr("sys.argv", command)

    training.main()
    first = capsys.readouterr().out
    names = [line.split("\t")[0] for line in first.splitlines()]
    for name in ("experiment", *ONLY, "… mean of last 4", "… mean of best 4"):
        assert name in names
    assert "–" not in next(line for line in first.splitlines() if line.startswith("dirty"))

    monkeypatch.setattr(training.gnomon, "train", None)
    training.main()
    assert capsys.readouterr().out == first
