"""benchmarks/gpu.sh at a size that a CPU takes in seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.gpu.sections import BUDGETS, SECTIONS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])
        if name == "compile"
        else name
        for name in SECTIONS
    ],
)
def test_every_section_gives_figures(name: str) -> None:
    rows = list(SECTIONS[name]("tiny", "cpu"))
    assert rows
    for row in rows:
        assert row.section == name
        assert (row.tokens_per_second or 0) > 0 or row.note, row
        assert row.peak_gb is None
        if name in ("formats", "memory", "attention", "compile"):
            assert row.utilisation is not None
            assert 0 < row.utilisation < 1


def test_the_budgets_are_ten_minutes() -> None:
    assert BUDGETS.keys() == SECTIONS.keys()
    # Every section rarely takes all it may; --minutes ends what is left.
    assert sum(BUDGETS.values()) < 12 * 60


def test_a_section_that_fails_is_told_and_the_others_are_measured(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'decoding' in sys.orig_argv and '--section' in sys.orig_argv:\n"
        "    raise SystemExit('the driver is gone')\n"
    )
    done = subprocess.run(
        [
            "bash",
            str(ROOT / "benchmarks" / "gpu.sh"),
            str(tmp_path / "out"),
            "--tiny",
            "--device",
            "cpu",
            "--only",
            "decoding",
            "ceiling",
        ],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "gpu.json").read_text())
    assert list(result["failed"]) == ["decoding"]
    assert "the driver is gone" in result["failed"]["decoding"]
    assert {row["section"] for row in result["rows"]} == {"ceiling"}
    assert "decoding failed" in (tmp_path / "out" / "gpu.md").read_text()
