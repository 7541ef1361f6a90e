"""The catalogue is as it was frozen, or says why not."""

from __future__ import annotations

import pytest
from benchmarks.faults import freeze


def test_nothing_was_changed_without_a_reason() -> None:
    assert not freeze.changes(), "\n".join(freeze.changes())
    assert not freeze.unexplained()


def test_a_changed_file_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = freeze.current()
    first, second, *_ = now
    monkeypatch.setattr(
        freeze, "current", lambda: {**now, first: "0" * 64, "catalogue/x/y.py": "1"}
    )
    found = freeze.changes()
    assert len(found) == 2
    assert first in found[0]
    assert "AMENDED" in found[0]
    monkeypatch.setattr(freeze, "current", lambda: {k: v for k, v in now.items() if k != second})
    assert [second in line and "gone" in line for line in freeze.changes()] == [True]
