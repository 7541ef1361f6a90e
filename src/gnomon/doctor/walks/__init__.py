"""Walks led by a symptom: ordered questions, evidence, a decision at each, and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnomon.doctor.finding import Finding
from gnomon.doctor.walks.clinic import WALKS
from gnomon.doctor.walks.proof import prove
from gnomon.doctor.walks.walk import Proof, Step, Walk, walk_through

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

__all__ = ["WALKS", "Proof", "Step", "Walk", "codes_of", "walk"]


def codes_of(symptom: str) -> set[str]:
    """The checks that a symptom's walk asks."""
    return {code for station in WALKS[symptom] for code in station.codes}


def walk(symptom: str, case: Case, findings: Sequence[Finding]) -> Walk:
    """Walk through a symptom's questions with these findings, and try mends where that is cheap.

    Everything is left as it was: mends are tried on copies. Where a loss does not fall, what a mend
    does to the loss is measured, too.
    """
    learning = symptom == "stuck"
    return walk_through(
        symptom, WALKS[symptom], case, findings, lambda each: prove(case, each, learning=learning)
    )
