"""What a check found: verdict, evidence, cause, mend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["pass", "warn", "fail", "skip", "n/a"]


class Skip(Exception):
    """A check cannot be made: a fact it needs is not to be had; the reason is its text."""


class NotApplicable(Skip):
    """What a check is about cannot be in this patient, whatever more was handed over.

    By its architecture or intent: cross-attention in an encoder, rotary phases where positions are
    added. Only for what is known; where it is merely not seen, `Skip`.
    """


def foremost(reasons: Sequence[Skip]) -> Skip:
    """Of the reasons why none of a model's texts could be examined, the one to tell.

    That one of them could not be had comes before that the others do not apply.
    """
    return next((r for r in reasons if not isinstance(r, NotApplicable)), reasons[0])


@dataclass(frozen=True)
class Outcome:
    """What one check says; made by `passed`, `warning` and `failure`.

    Args:
        evidence: one sentence with the numbers that decide.
        numbers: the same and more as plain values, for machines and pictures.
        where: the places at fault, the first one first: dotted module names, parameter names,
            "head 3 of decoder.layers.0.attention", file lines.
        cause, mend: where this case is told apart from the check's usual ones.
    """

    verdict: Verdict
    evidence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    cause: str = ""
    mend: str = ""


def passed(evidence: str, **numbers: Any) -> Outcome:
    """It is as it should be."""
    return Outcome("pass", evidence, numbers)


def failure(
    evidence: str,
    *,
    where: str | Sequence[str] = (),
    cause: str = "",
    mend: str = "",
    **numbers: Any,
) -> Outcome:
    """A property is violated, as the numbers show."""
    return Outcome("fail", evidence, numbers, _places(where), cause, mend)


def warning(
    evidence: str,
    *,
    where: str | Sequence[str] = (),
    cause: str = "",
    mend: str = "",
    **numbers: Any,
) -> Outcome:
    """A strong suspicion, or what will break under conditions that the evidence names."""
    return Outcome("warn", evidence, numbers, _places(where), cause, mend)


def _places(where: str | Sequence[str]) -> tuple[str, ...]:
    return (where,) if isinstance(where, str) else tuple(where)


@dataclass(frozen=True, repr=False)
class Finding:
    """One result of an examination. `print` shows it as the terminal does.

    Attributes:
        code: the check's name, as in suppressions, `--accept` and the docs.
        title: what is so: what the check protects where it passed, the fault where it did not.
        verdict: "pass", "warn" or "fail"; "skip" where the check could not be made and "n/a" where
            it does not apply (then the evidence is the reason).
        seconds: what the check took, facts that it was the first to ask for included.
    """

    code: str
    group: str
    title: str
    verdict: Verdict
    evidence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    cause: str = ""
    mend: str = ""
    reference: str = ""
    suppressed: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def __str__(self) -> str:
        from gnomon.doctor.reports.text import finding_text

        return finding_text(self)

    def __repr__(self) -> str:
        return f"<Finding {self.verdict} {self.group}/{self.code}: {self.title}>"
