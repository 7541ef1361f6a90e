"""What a mend does to a loss that does not fall: a few steps on one batch, with and without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gnomon.doctor.facts.loss.by_heart import short, trained
from gnomon.doctor.patient import Patient

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

_STEPS = 30
_MATTERS = 0.1  # of the loss that is left without it,
_AT_LEAST = 0.01  # and of the first loss: two runs part by less


@dataclass(frozen=True)
class Effect:
    """The loss on one batch after so many steps of Adam.

    Attributes:
        first: the loss before the first step.
    """

    without: float
    with_it: float
    steps: int
    first: float

    @property
    def gain(self) -> float:
        """How much lower it is with the mend, as a share of what is left without it."""
        return (self.without - self.with_it) / max(abs(self.without), 1e-9)

    @property
    def matters(self) -> bool:
        """More than chance."""
        lower = self.without - self.with_it
        return self.gain >= _MATTERS and lower >= _AT_LEAST * abs(self.first)

    def __str__(self) -> str:
        found = f"the loss on one batch after {self.steps} steps: {self.without:.3g} without it, "
        found += f"{self.with_it:.3g} with it"
        return found if self.matters else f"{found}: no effect"


def effect_of(case: Case, mended: Patient) -> Effect:
    """Learn one batch twice, from the same weights.

    Raises:
        Skip: no training loss is known.
    """
    from gnomon.doctor.case import Case as NewCase

    decay = mended.optimizer is not None  # a copy has no optimizer: then neither side decays
    plain = replace(case.patient, optimizer=case.patient.optimizer if decay else None)
    without, with_it = (
        trained(other, short(other), steps=_STEPS, decay=decay)
        for other in (NewCase(plain), NewCase(mended))
    )
    steps = min(len(without), len(with_it)) - 1
    before, after = (_mean(each[max(steps - 2, 0) : steps + 1]) for each in (without, with_it))
    return Effect(before, after, steps, without[0])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
