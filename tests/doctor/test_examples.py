"""Every check carries a small faulty patient, which it must find, and its mended form."""

from typing import Any

import pytest

from gnomon.doctor import all_checks
from gnomon.doctor.check import Check
from gnomon.doctor.examine import examine
from gnomon.doctor.finding import Finding
from gnomon.doctor.patient import Patient

CHECKS = all_checks()


def verdict(check: Check, source: str) -> Finding:
    """What the check says of the patient that this source defines."""
    names: dict[str, Any] = {}
    exec(compile(source, f"<{check.code}>", "exec"), names)
    return examine(Patient(**names["patient"]()), [check]).findings[0]


@pytest.mark.parametrize("code", CHECKS)
def test_the_example_is_found(code: str) -> None:
    finding = verdict(CHECKS[code], CHECKS[code].example)
    assert finding.verdict in ("fail", "warn"), finding.evidence
    assert finding.cause and finding.mend and finding.reference


@pytest.mark.parametrize("code", CHECKS)
def test_the_mended_form_passes(code: str) -> None:
    finding = verdict(CHECKS[code], CHECKS[code].mended)
    assert finding.verdict == "pass", finding.evidence


@pytest.mark.parametrize("code", CHECKS)
def test_a_check_says_what_it_protects(code: str) -> None:
    check = CHECKS[code]
    assert check.group, f"{code} lies in a folder that is no group"
    assert len(check.protects) > 60
    assert check.title and not check.title.endswith(".")
