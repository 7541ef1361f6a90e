"""The benchmark's tables, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.deform.trial import Trial
from benchmarks.patients.tables import markdown, share


def acting_table(trials: Sequence[Trial]) -> str:
    """How many injections act, by subject."""
    rows = []
    for subject in dict.fromkeys(t.subject for t in trials):
        own = [t for t in trials if t.subject == subject]
        acting = [t for t in own if t.acts]
        rows.append(
            (
                subject,
                len(own),
                sum(bool(t.refused) for t in own),
                sum(not t.acts and not t.refused for t in own),
                len(acting),
                sum(t.loud for t in acting),
                f"{len({t.operator for t in acting})}/{len({t.operator for t in own})}",
            )
        )
    header = ("subject", "injections", "refused", "no effect", "act", "of which raise", "operators")
    return markdown(header, rows)


def no_op_table(trials: Sequence[Trial]) -> str:
    """What does not act, and why; one line per operator and reason."""
    where: dict[tuple[str, str], list[str]] = {}
    for t in trials:
        if not t.acts:
            where.setdefault((t.operator, t.reason), []).append(
                f"{t.subject}" + (f" {t.severity}" if t.severity else "")
            )
    rows = []
    for (operator, reason), places in where.items():
        subjects = dict.fromkeys(p.split("/")[0] for p in places)
        severities = dict.fromkeys(p.split(" ")[1] for p in places if " " in p)
        rows.append((operator, ", ".join(severities), ", ".join(subjects), reason))
    return markdown(("operator", "severity", "models", "why"), rows)


def result_table(trials: Sequence[Trial], by: Callable[[Trial], str]) -> str:
    """Detected and rightly named, in all and by `by`, with and without the conformance check."""
    rows = []
    acting = [t for t in trials if t.acts]
    keys = list(dict.fromkeys(by(t) for t in acting))
    for key in (*keys, "all"):
        own = [t for t in acting if key == "all" or by(t) == key]
        counts = (
            sum(t.detected for t in own),
            sum(t.named for t in own),
            sum(t.detected_plain for t in own),
            sum(t.named_plain for t in own),
        )
        rows.append((key, *(share(count, len(own)) for count in counts)))
    header = (
        "",
        "detected",
        "right component",
        "detected, no conformance",
        "right, no conformance",
    )
    return markdown(header, rows)


def miss_table(trials: Sequence[Trial]) -> str:
    """Every acting fault that was missed or misnamed."""
    rows = [
        (
            f"{t.operator} {t.severity}".strip(),
            t.subject,
            "misnamed" if t.detected else "missed",
            ", ".join(dict.fromkeys(t.new)),
            t.reason,
        )
        for t in trials
        if t.acts and not t.named
    ]
    return markdown(("fault", "subject", "", "new findings", "why"), rows)
