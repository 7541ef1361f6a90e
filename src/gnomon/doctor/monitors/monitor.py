"""What a monitor is: one thing to keep an eye on while a model trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gnomon.doctor.finding import Finding


@dataclass(frozen=True)
class Seen:
    """What a look gave.

    Attributes:
        values: for the log and the curves.
        finding: what is wrong, where something is.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    finding: Finding | None = None


@dataclass(frozen=True)
class Sample:
    """What a validation can tell; every part is optional.

    Attributes:
        sources, references, hypotheses: texts, line by line (any strings that can be compared).
        nll: teacher-forced loss in nats a token.
        nll_of_shuffled: the same where each target was given another line's source.
        accuracy: share of reference tokens that are the model's first choice, teacher-forced.
    """

    sources: Sequence[str] = ()
    references: Sequence[str] = ()
    hypotheses: Sequence[str] = ()
    nll: float | None = None
    nll_of_shuffled: float | None = None
    accuracy: float | None = None


class Monitor:
    """Base of all monitors. Override the occasions of interest; each look returns what it saw.

    A look reads the model and the optimizer and changes neither; random numbers that it draws are
    given back (see `panel`).

    Attributes:
        kind: of its lines in the log.
    """

    kind: ClassVar[str]

    def on_gradients(self, step: int) -> None:
        """The gradients of a step that is looked at are there; the weights are the old ones."""

    def on_update(self, step: int) -> Seen | None:
        """The weights have been updated, in a step that is looked at."""
        return None

    def on_loss(self, step: int, loss: float, learning_rate: float) -> Seen | None:
        """Every step."""
        return None

    def on_validation(self, step: int, sample: Sample) -> Seen | None:
        """After a validation."""
        return None


def suspicion(
    code: str,
    title: str,
    evidence: str,
    *,
    cause: str,
    mend: str,
    reference: str,
    where: Sequence[str] = (),
    **numbers: Any,
) -> Finding:
    """A warning of a monitor, in the form of the doctor's other findings."""
    return Finding(
        code=code,
        group="training",
        title=title,
        verdict="warn",
        evidence=evidence,
        numbers=numbers,
        where=tuple(where),
        cause=cause,
        mend=mend,
        reference=reference,
    )


def sentence(finding: Finding) -> str:
    """A finding for the console: what, where, why, and what to do."""
    place = f" at {', '.join(finding.where[:3])}" if finding.where else ""
    return (
        f"{finding.code}{place}: {finding.evidence}\n  cause: {finding.cause}\n"
        f"  mend: {finding.mend}"
    )
