"""The doctor finds nothing wrong with a sound model of others, whatever its architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnomon import api
from gnomon.doctor.targets import Options
from gnomon.interop import import_model
from interop.zoo import CLASSIFIERS, ZOO, save


@pytest.mark.parametrize("name", sorted(ZOO | CLASSIFIERS))
def test_a_model_that_was_taken_in_is_well(name: str, tmp_path: Path) -> None:
    save(
        name, tmp_path / "theirs", labels={0: "a", 1: "b", 2: "c"} if name in CLASSIFIERS else None
    )
    import_model(tmp_path / "theirs", tmp_path / "ours")
    report = api.examine_target(tmp_path / "ours", Options())
    told = {
        each.code: each.evidence for each in report.findings if each.verdict in ("fail", "warn")
    }
    assert not told
    assert sum(each.verdict == "pass" for each in report.findings) > 20
