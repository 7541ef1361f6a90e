"""The quickstart of a language model, small, on a library made up in place of Python's."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gnomon.quickstart.library
import gnomon.recipes.load
from gnomon.cli.app import app
from gnomon.recipes.presets import preset_text


def test_it_goes_through_every_station_and_again_when_it_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    for number, name in enumerate(sorted(sys.stdlib_module_names)):
        text = f"import sys\n\n\ndef function_{number}():\n    return sys.path[{number}]  # é\n"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(gnomon.quickstart.library, "find_library", lambda: folder)
    text = preset_text("quickstart-generate")
    text = re.sub(r"max_steps = \d+", "max_steps = 6", text)
    text = re.sub(r"d_model = \d+", "d_model = 32", text)
    text = re.sub(r"(validate|checkpoint)_every = \d+", r"\1_every = 3", text)
    monkeypatch.setattr(gnomon.recipes.load, "preset_text", lambda name: text)
    monkeypatch.chdir(tmp_path)
    for is_first in (True, False):
        done = CliRunner().invoke(app, ["quickstart", "--task", "generate"])
        assert done.exit_code == 0, done.output
        for station in ("1. Prepare", "4. Evaluate", "5. Prompts", "6. Done"):
            assert station in done.output, station
        assert is_first == ("2. The doctor" in done.output) == ("3. Train" in done.output)
        assert "gnomon generate runs/quickstart-generate" in done.output
    assert "FAIL" not in done.output
    # Both judge the same characters, so that bits of the one are bits of the other.
    (path,) = (tmp_path / "runs/quickstart-generate/evaluations").glob("*.json")
    report = json.loads(path.read_text())
    ours, theirs = report["scores"], report["baselines"]["6-grams"]
    assert [score["details"] for score in ours] == [score["details"] for score in theirs]
    assert "bits_per_byte" in done.output


def test_a_language_is_not_for_code() -> None:
    done = CliRunner().invoke(app, ["quickstart", "--task", "generate", "--to", "fr"])
    assert isinstance(done.exception, Exception)
    assert "--to" in str(done.exception)
