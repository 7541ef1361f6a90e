"""The loop that the docs show runs as it stands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "monitor.md"


def test_the_loop_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loop, callback = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(loop, "monitor.md", "exec"), names)
    lines = (tmp_path / "runs/mine/monitors.jsonl").read_text().splitlines()
    assert {json.loads(line)["kind"] for line in lines} == {"updates", "attention"}
    assert names["monitor"].findings == {}  # type: ignore[attr-defined]
    exec(compile(callback, "monitor.md", "exec"), names)


def test_every_warning_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    folder = Path(__file__).parents[3] / "src/gnomon/doctor/monitors"
    sources = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    codes = set(re.findall(r'suspicion\(\s*"([a-z-]+)"', sources))
    assert len(codes) >= 7
    assert all(f"`{code}`" in text for code in codes), codes
