"""A report as SARIF 2.1.0 (OASIS standard), which code hosts and editors show.

A model has no source lines, so places are logical locations; files of text are physical ones.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

from gnomon.doctor.check import Check, all_checks
from gnomon.doctor.finding import Finding
from gnomon.doctor.report import Report
from gnomon.files import json_value

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"fail": "error", "warn": "warning", "pass": "none", "skip": "none", "n/a": "none"}
# "open": its evaluation is not complete; "notApplicable": there is nothing to evaluate.
_KINDS = {"fail": "fail", "warn": "fail", "pass": "pass", "skip": "open", "n/a": "notApplicable"}
_FILE_LINE = re.compile(r"(?P<file>.+), lines? (?P<line>\d+)(?:–(?P<end>\d+))?$")


def sarif(report: Report) -> dict[str, Any]:
    """One run of one tool, a rule for each check that was made, a result for each finding."""
    checks = all_checks()
    codes = [finding.code for finding in report]
    rules = [_rule(checks[code]) for code in codes if code in checks]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "gnomon doctor",
                        "semanticVersion": version("gnomon"),
                        "rules": rules,
                    }
                },
                "results": [_result(finding, codes.index(finding.code)) for finding in report],
                "properties": {"target": report.target, "facts": json_value(report.facts)},
            }
        ],
    }


def _rule(check: Check) -> dict[str, Any]:
    return {
        "id": check.code,
        "name": "".join(part.capitalize() for part in check.code.split("-")),
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": check.protects},
        "help": {"text": f"{check.cause} {check.mend}"},
        "properties": {"tags": [check.group, check.cost]},
    }


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    parts = (finding.title, finding.evidence, finding.cause, finding.mend)
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "kind": _KINDS[finding.verdict],
        "level": _LEVELS[finding.verdict],
        "message": {"text": " — ".join(part for part in parts if part)},
        "properties": {"numbers": json_value(finding.numbers)},
    }
    if finding.where:
        result["locations"] = [_location(place) for place in finding.where]
    if finding.suppressed:
        result["suppressions"] = [{"kind": "external", "justification": finding.suppressed}]
    return result


def _location(place: str) -> dict[str, Any]:
    if found := _FILE_LINE.match(place):
        region = {"startLine": int(found["line"])}
        if found["end"]:
            region["endLine"] = int(found["end"])
        physical = {"artifactLocation": {"uri": found["file"]}, "region": region}
        return {"physicalLocation": physical}
    return {"logicalLocations": [{"fullyQualifiedName": place}]}
