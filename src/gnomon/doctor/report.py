"""The findings of one examination together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gnomon.doctor.finding import Finding, Verdict
from gnomon.doctor.walks.walk import Walk


@dataclass(frozen=True, repr=False)
class Report:
    """What an examination found. `print` shows it as the terminal does, a notebook as the page.

    Attributes:
        target: what was examined, for people.
        findings: one for each check, in the order of the checks.
        facts: what was inferred (family, causal …) and how.
        seconds: wall time in all.
        pictures: what the HTML page draws, where it was asked for (see `doctor.pictures`).
        walk: the questions that a symptom led through.
    """

    target: str
    findings: tuple[Finding, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    pictures: dict[str, Any] = field(default_factory=dict)
    walk: Walk | None = None

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __getitem__(self, code: str) -> Finding:
        """The finding of one check.

        Raises:
            KeyError: that check was not made.
        """
        for each in self.findings:
            if each.code == code:
                return each
        raise KeyError(code)

    def of(self, *verdicts: Verdict) -> tuple[Finding, ...]:
        """The findings with one of these verdicts, suppressed ones left out."""
        return tuple(f for f in self.findings if f.verdict in verdicts and not f.suppressed)

    @property
    def failed(self) -> bool:
        """Whether something is wrong."""
        return bool(self.of("fail"))

    def counts(self) -> dict[str, int]:
        """How many of each verdict, and how many were suppressed."""
        found = Counter("suppressed" if f.suppressed else f.verdict for f in self.findings)
        return {name: found[name] for name in ("fail", "warn", "pass", "skip", "n/a", "suppressed")}

    def __str__(self) -> str:
        from gnomon.doctor.reports.text import report_text

        return report_text(self)

    def __repr__(self) -> str:
        from gnomon.doctor.reports.text import counts_sentence

        return f"<Report of {self.target}: {counts_sentence(self)}; print it to read it>"

    def html(self) -> str:
        """The one self-contained page that `gnomon doctor --html` writes."""
        from gnomon.doctor.reports.html import html_page

        return html_page(self)

    def _repr_html_(self) -> str:
        """The page in a frame of its own: its style does not reach the notebook around it."""
        from html import escape

        page = escape(self.html())
        return f'<iframe srcdoc="{page}" style="width:100%;height:40rem;border:0"></iframe>'

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "target": self.target,
            "facts": self.facts,
            "counts": self.counts(),
            "seconds": self.seconds,
            "findings": [each.as_json() for each in self.findings],
            "pictures": self.pictures,
            **({} if self.walk is None else {"walk": self.walk.as_json()}),
        }
