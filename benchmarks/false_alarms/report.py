"""Counts and tables of what was said of healthy models."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.patients.examination import Examination, Seen

VERDICTS = ("fail", "warn", "pass", "skip", "n/a")
# Shares of all findings that are allowed.
LIMITS = {"fail": 0.0, "warn": 0.02, "skip": 0.25}


@dataclass(frozen=True)
class Visit:
    """One examination of one healthy model."""

    model: str
    group: str
    state: str
    mode: str
    examination: Examination

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@cache
def _entries() -> tuple[dict[str, str], ...]:
    path = Path(__file__).with_name("justified.toml")
    return tuple(tomllib.loads(path.read_text(encoding="utf-8")).get("finding", ()))


def reason_for(visit: Visit, finding: Seen) -> str:
    """Why this finding on a healthy model is right; "" if nobody has said."""
    facts = {
        "model": visit.model,
        "code": finding.code,
        "verdict": finding.verdict,
        "mode": visit.mode,
        "state": visit.state,
        "says": finding.evidence,
    }
    for entry in _entries():
        if all(fnmatch(value, entry.get(key, "*")) for key, value in facts.items()):
            return entry["reason"]
    return ""


def counts(visits: Sequence[Visit]) -> Counter[str]:
    """Findings by verdict; "error" for examinations that broke; "unjustified fail" and so on."""
    found: Counter[str] = Counter()
    for visit in visits:
        found["error"] += bool(visit.examination.error)
        for finding in visit.examination.findings:
            found[finding.verdict] += 1
            if finding.verdict in ("fail", "warn", "skip") and not reason_for(visit, finding):
                found[f"unjustified {finding.verdict}"] += 1
    return found


def summary_table(visits: Sequence[Visit]) -> str:
    """Shares of all findings by what was handed over, by state and by kind of model."""
    lines = [
        "| | examinations | broke | fails | warnings | skips | not applicable |"
        " unjustified fails / warnings / skips | median s | slowest s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    rows: list[tuple[str, list[Visit]]] = [("all", list(visits))]
    for key in ("mode", "state", "group"):
        for value in dict.fromkeys(getattr(v, key) for v in visits):
            rows.append((f"{key}: {value}", [v for v in visits if getattr(v, key) == value]))
    for name, own in rows:
        found = counts(own)
        total = sum(found[v] for v in VERDICTS)
        seconds = sorted(v.examination.seconds for v in own)
        shares = " | ".join(
            f"{found[v]} ({found[v] / total:.1%})" if total else "–"
            for v in ("fail", "warn", "skip", "n/a")
        )
        lines.append(
            f"| {name} | {len(own)} | {found['error']} | {shares}"
            f" | {found['unjustified fail']} / {found['unjustified warn']}"
            f" / {found['unjustified skip']}"
            f" | {seconds[len(seconds) // 2]:.1f} | {seconds[-1]:.1f} |"
        )
    return "\n".join(lines)


def model_table(visits: Sequence[Visit]) -> str:
    """For each model and state: fails and warnings, skips and what does not apply, of all modes."""
    states = tuple(dict.fromkeys(v.state for v in visits))
    head = " | ".join(f"{state}: fails, warnings, skips, not applicable" for state in states)
    lines = [f"| | {head} |", "|---|" + "---|" * len(states)]
    for name in dict.fromkeys(v.model for v in visits):
        cells = []
        for state in states:
            found = counts([v for v in visits if (v.model, v.state) == (name, state)])
            total = sum(found[v] for v in VERDICTS)
            skipped, foreign = found["skip"] / (total or 1), found["n/a"] / (total or 1)
            told = f"{found['fail']}, {found['warn']}, {skipped:.0%}, {foreign:.0%}"
            cells.append(told if total else "–")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def visits_of(path: Path) -> list[Visit]:
    """What a run wrote."""
    found = []
    for each in json.loads(path.read_text(encoding="utf-8"))["visits"]:
        kept = each.pop("examination")
        findings = tuple(Seen(**{**f, "where": tuple(f["where"])}) for f in kept["findings"])
        slowest = tuple((code, seconds) for code, seconds in kept["slowest"])
        seen = Examination(findings, kept["error"], kept["seconds"], slowest)
        found.append(Visit(**each, examination=seen))
    return found


def _without_numbers(sentence: str) -> str:
    return re.sub(r"\d[\d.e+-]*", "#", sentence)


def finding_table(visits: Sequence[Visit], *verdicts: str) -> str:
    """Findings of these verdicts, those that say the same (numbers aside) in one line."""
    groups: dict[tuple[str, str, str, str], list[tuple[Visit, Seen]]] = defaultdict(list)
    for visit in visits:
        for finding in visit.examination.of(*verdicts):
            reason = reason_for(visit, finding)
            key = (finding.verdict, finding.code, _without_numbers(finding.evidence), reason)
            groups[key].append((visit, finding))
    lines = ["| verdict | code | times | models | says (one of them) | why it is right |"]
    lines.append("|---|---|---|---|---|---|")
    for (verdict, code, _, reason), own in sorted(groups.items()):
        names = list(dict.fromkeys(f"{v.model} {v.state} ({v.mode})" for v, _ in own))
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        said = own[0][1].evidence.replace("|", "/")
        why = reason or "**not justified**"
        lines.append(f"| {verdict} | {code} | {len(own)} | {shown} | {said} | {why} |")
    return "\n".join(lines)


def limits_line(visits: Sequence[Visit]) -> str:
    """The figures beside their limits; justified fails do not count."""
    found = counts(visits)
    total = sum(found[v] for v in VERDICTS) or 1
    parts = []
    for verdict, limit in LIMITS.items():
        number = found["unjustified fail"] if verdict == "fail" else found[verdict]
        kept = "within" if number / total <= limit else "OVER"
        parts.append(f"{verdict} {number / total:.2%} ({kept} {limit:.0%})")
    return "; ".join(parts)
