"""The quickstart: whole and small in the normal suite, whole and real in the slow one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gnomon.quickstart
import gnomon.recipes.load
from gnomon.cli.app import app
from gnomon.recipes.presets import preset_text


def test_it_goes_through_every_station_and_again_when_it_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gnomon.quickstart.make_corpus
    monkeypatch.setattr(
        gnomon.quickstart,
        "make_corpus",
        lambda language: whole(language, num_train=2000, num_valid=20, num_test=30),
    )
    text = preset_text("quickstart")
    text = re.sub(r"max_steps = \d+", "max_steps = 6", text)
    text = re.sub(r"d_model = \d+", "d_model = 32", text)
    text = re.sub(r"(validate|checkpoint)_every = \d+", r"\1_every = 3", text)
    monkeypatch.setattr(gnomon.recipes.load, "preset_text", lambda name: text)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        done = CliRunner().invoke(app, ["quickstart", "--to", "fr"])
        assert done.exit_code == 0, done.output
        for station in ("1. Prepare", "4. Evaluate", "5. Held-out", "6. Done"):
            assert station in done.output, station
        assert "gnomon translate runs/quickstart-fr" in done.output
    assert "FAIL" not in done.output


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_reaches_97_percent(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "gnomon", "quickstart"], cwd=tmp_path, check=True)
    (report,) = (tmp_path / "runs" / "quickstart" / "evaluations").glob("*.json")
    scores = {s["name"]: s["value"] for s in json.loads(report.read_text())["scores"]}
    assert scores["exact_match"] >= 97.0, scores
