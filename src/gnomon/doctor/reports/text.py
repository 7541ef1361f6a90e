"""A report for a terminal: what is wrong in full, the rest as a count."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gnomon.doctor.check import COSTS
from gnomon.doctor.finding import Finding
from gnomon.doctor.plan import Plan
from gnomon.doctor.report import Report
from gnomon.errors import excerpt

WORDS = {
    "fail": "failed",
    "warn": "warned",
    "pass": "passed",
    "skip": "skipped",
    "n/a": "not applicable",
}
_STYLES = {
    "fail": "bold red",
    "warn": "bold yellow",
    "pass": "green",
    "skip": "dim",
    "n/a": "dim",
}
_PLACES = 5  # named of a finding
_REASONS, _REASON = 4, 70  # of skips: how many are told, and how long each


def plan_sentence(plan: Plan) -> str:
    """What will be done, and what it costs."""
    counts = Counter(each.cost for each in plan.checks)
    classes = ", ".join(f"{counts[cost]} {cost}" for cost in COSTS if counts[cost])
    if not plan.checks:
        return "no check is made: only what can be measured at once"
    checks = "1 check" if len(plan.checks) == 1 else f"{len(plan.checks)} checks ({classes})"
    about = "depending on how much text there is" if plan.reads_text else _about(*plan.seconds)
    return f"{checks}, {about}; everything is left as it was"


def _about(least: float, most: float) -> str:
    """A range in whole seconds or minutes; no number where nothing could be timed."""
    if most <= 0:
        return "for how long cannot be told"
    if most < 2:
        return "about a second" if most < 1.5 else "1 to 2 s"
    unit, name = (60.0, "min") if least >= 120 else (1.0, "s")
    low, high = max(1, math.floor(least / unit)), math.ceil(most / unit)
    return f"about {low} to {high} {name}" if low < high else f"about {high} {name}"


def report_text(report: Report, *, verbose: bool = False, width: int = 100) -> str:
    """A report as plain text, lines broken at `width`; see `draw_report`."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        draw_report(report, console, verbose=verbose)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def draw_report(report: Report, console: Console, *, verbose: bool = False) -> None:
    """Print a report.

    Args:
        verbose: also what passed, and why the rest was skipped, does not apply or is suppressed.
    """
    if report.walk is not None:
        for line in report.walk.lines():
            console.print(Text(excerpt(line)), highlight=False)
        console.print()
    for finding in (*report.of("fail"), *report.of("warn")):
        _draw_finding(finding, console, verbose)
    if verbose:
        others = [f for f in report if f.suppressed or f.verdict in ("pass", "skip", "n/a")]
        _draw_others(others, console)
    if verbose:
        _draw_anatomy(report.facts.get("anatomy", ()), console)
    if form := report.facts.get("form"):
        console.print(Text(f"form: {form}", style="dim"))
    if facts := facts_sentence(report.facts):
        console.print(Text(facts, style="dim"))
    if differences := differences_sentence(report.facts):
        more = "" if verbose else "; --verbose says what follows"
        console.print(Text(differences + more, style="dim"))
    if not verbose and (lacking := lacking_sentence(report)):
        console.print(Text(lacking, style="dim"))
    console.print(Text(counts_sentence(report)), highlight=False)


def finding_text(finding: Finding, *, width: int = 100) -> str:
    """One finding as plain text, as it stands in a report."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        _draw_finding(finding, console, verbose=True)
    return "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines())


def lacking_sentence(report: Report) -> str:
    """Why checks were skipped, the most frequent reasons first; "" where none was."""
    reasons = Counter(excerpt(finding.evidence, _REASON) for finding in report.of("skip"))
    told = [f"{reason} ({count})" for reason, count in reasons.most_common(_REASONS)]
    rest = len(reasons) - len(told)
    if rest:
        told.append(f"{rest} other {'reason' if rest == 1 else 'reasons'} (--verbose)")
    return f"skipped: {'; '.join(told)}" if told else ""


def counts_sentence(report: Report) -> str:
    """How many failed, and so on; how long it took."""
    counts = report.counts()
    told = [f"{counts[verdict]} {word}" for verdict, word in WORDS.items() if counts[verdict]]
    if counts["suppressed"]:
        told.append(f"{counts['suppressed']} accepted by the recipe")
    return f"{', '.join(told) or 'nothing was checked'} in {report.seconds:.1f} s"


def facts_sentence(facts: Mapping[str, Any]) -> str:
    """What the model was taken for, "" where nothing is known."""
    if "family" not in facts:
        return ""
    causal = {True: "causal", False: "reading in both directions", None: "causal or not: unknown"}
    family = str(facts["family"]).replace("_", "-")
    return f"taken for: {family}, {causal[facts['causal']]} ({facts['known by']})"


def differences_sentence(facts: Mapping[str, Any]) -> str:
    """In which parts the model is another than the Transformer of 2017, "" for none."""
    parts = [each["part"] for each in facts.get("anatomy", ()) if each["paper"]]
    if not parts:
        return ""
    return f"by choice not as in Vaswani et al. 2017: {', '.join(dict.fromkeys(parts))}"


def _draw_anatomy(traits: Iterable[Mapping[str, str]], console: Console) -> None:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim")
    rows.add_column()
    for each in traits:
        rows.add_row(each["part"], Text(excerpt(each["seen"])))
        for name, text in (("2017", each["paper"]), ("brings", each["means"])):
            if text:
                rows.add_row("", Text.assemble((f"{name}: ", "dim"), text))
    if rows.row_count:
        console.print(Text("What it is made of", style="bold"))
        console.print(Padding(rows, (0, 0, 1, 2)))


def _draw_finding(finding: Finding, console: Console, verbose: bool) -> None:
    head = Text.assemble(
        (finding.verdict.upper(), _STYLES[finding.verdict]),
        "  ",
        (finding.title, "bold"),
        (f"  {finding.group}/{finding.code}", "dim"),
    )
    console.print(head)
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim")
    rows.add_column()
    for name, text in told(finding):
        if verbose or name != "about":
            rows.add_row(name, Text(text))
    console.print(Padding(rows, (0, 0, 1, 2)))


def told(finding: Finding) -> Iterator[tuple[str, str]]:
    """What a finding says, line by line: name and text."""
    yield "seen", excerpt(finding.evidence)
    if finding.where:
        more = len(finding.where) - _PLACES
        places = [excerpt(place) for place in finding.where[:_PLACES]]
        yield "where", ", ".join(places) + (f" and {more} more" if more > 0 else "")
    for name, text in (
        ("cause", finding.cause),
        ("mend", finding.mend),
        ("about", finding.reference),
        ("accepted", finding.suppressed),
    ):
        if text:
            yield name, excerpt(text)


def _draw_others(findings: Iterable[Finding], console: Console) -> None:
    rows = Table.grid(padding=(0, 2))
    for finding in findings:
        word = "accepted" if finding.suppressed else finding.verdict
        text = finding.evidence
        if finding.suppressed:
            text += f" (accepted: {finding.suppressed})"
        style = _STYLES["skip"] if finding.suppressed else _STYLES[finding.verdict]
        rows.add_row(
            Text(word, style=style), f"{finding.group}/{finding.code}", Text(excerpt(text))
        )
    if rows.row_count:
        console.print(Padding(rows, (0, 0, 1, 0)))
