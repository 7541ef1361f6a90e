"""The check that the documentation writes as an example is a check, and short."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnomon.doctor import Check, all_checks
from gnomon.doctor.check import _CHECKS
from gnomon.doctor.examine import examine
from gnomon.doctor.patient import Patient

PAGE = Path(__file__).parents[2] / "docs/how-to/write-a-check.md"


@pytest.fixture
def written() -> Iterator[Check]:
    source = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert source is not None
    assert len(source.group(1).splitlines()) < 60
    all_checks()
    exec(source.group(1), {"__name__": "gnomon.doctor.checks.positions.padding_row"})
    yield _CHECKS["padding-row"]
    del _CHECKS["padding-row"]


@pytest.mark.parametrize(("form", "verdict"), [("example", "fail"), ("mended", "pass")])
def test_the_documented_check_works(written: Check, form: str, verdict: str) -> None:
    names: dict[str, object] = {}
    exec(getattr(written, form), names)
    patient = Patient(**names["patient"]())  # type: ignore[operator]
    finding = examine(patient, [written]).findings[0]
    assert finding.verdict == verdict
    assert written.group == "positions"
