"""One call of the doctor, kept as plain values, and two of them compared."""

from __future__ import annotations

import time
import traceback
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import nn

_RANK = {"n/a": 0, "skip": 0, "pass": 0, "warn": 1, "fail": 2}


@dataclass(frozen=True)
class Seen:
    """A finding's plain part."""

    code: str
    verdict: str
    evidence: str
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class Examination:
    """What the doctor said; `error` where it broke instead."""

    findings: tuple[Seen, ...] = ()
    error: str = ""
    seconds: float = 0.0
    slowest: tuple[tuple[str, float], ...] = field(default=())

    def of(self, *verdicts: str) -> tuple[Seen, ...]:
        return tuple(f for f in self.findings if f.verdict in verdicts)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def examine(module: nn.Module, batch: Any = None, **fields: Any) -> Examination:
    """`diagnose`, timed; a broken doctor is a result too."""
    from gnomon.doctor import diagnose

    start = time.perf_counter()
    try:
        report = diagnose(module, batch, **fields)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = (str(error).splitlines() or [""])[0][:160]
        text = (
            f"{type(error).__name__}: {said} ({place.filename.rsplit('/', 1)[-1]}:{place.lineno})"
        )
        return Examination(error=text, seconds=time.perf_counter() - start)
    findings = tuple(
        Seen(f.code, str(f.verdict), str(f.evidence), tuple(f.where)) for f in report.findings
    )
    times = sorted(((f.code, f.seconds) for f in report.findings), key=lambda t: -t[1])
    return Examination(
        findings=findings, seconds=time.perf_counter() - start, slowest=tuple(times[:5])
    )


def new_findings(healthy: Examination, ill: Examination) -> tuple[Seen, ...]:
    """Warnings and fails of the ill patient under codes where its healthy twin fared better.

    A code that is at warn on both does not count, whatever the places it names.
    """
    worst: dict[str, int] = {}
    for each in healthy.findings:
        worst[each.code] = max(worst.get(each.code, 0), _RANK[each.verdict])
    return tuple(f for f in ill.findings if _RANK[f.verdict] > worst.get(f.code, 0))
