"""A walk: the questions that a specialist asks of a symptom, in order, and where they lead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gnomon.doctor.finding import Finding, Skip
from gnomon.errors import excerpt

if TYPE_CHECKING:
    from gnomon.doctor.case import Case

Answer = Literal["wrong", "suspicious", "fine", "unknown"]
_ANSWERS: dict[str, Answer] = {"fail": "wrong", "warn": "suspicious", "pass": "fine"}


@dataclass(frozen=True)
class Measured:
    """What a station measures where no check answers its question."""

    answer: Answer
    evidence: str
    cause: str = ""
    mend: str = ""


@dataclass(frozen=True)
class Station:
    """One question of a walk.

    Attributes:
        question: as a specialist would ask it.
        codes: the checks whose findings answer it.
        measure: answers it by itself, where no check does.
        if_wrong, if_fine: the decision: what it means, and where to go on.
        last: nothing after it needs to be asked when it is wrong.
    """

    question: str
    codes: tuple[str, ...] = ()
    measure: Callable[[Case], Measured] | None = None
    if_wrong: str = "this explains it"
    if_fine: str = "go on"
    last: bool = False


@dataclass(frozen=True)
class Step:
    """A question that was asked, what answered it, and the decision."""

    question: str
    answer: Answer
    evidence: str
    decision: str
    codes: tuple[str, ...] = ()
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proof:
    """A mend tried on a copy, with what was seen before and after."""

    tried: str
    before: str
    after: str
    holds: bool


@dataclass(frozen=True)
class Walk:
    """A walk that was made.

    Attributes:
        cause, mend: the most likely ones; empty where nothing was found.
        code: the check that found it, if one did.
        proof: of the mend, where it can be tried at little cost.
    """

    symptom: str
    steps: tuple[Step, ...] = ()
    cause: str = ""
    mend: str = ""
    code: str = ""
    proof: Proof | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people: a line or two a step, then the conclusion."""
        told = []
        for number, step in enumerate(self.steps, 1):
            places = f" ({', '.join(step.where[:3])})" if step.where else ""
            told.append(f"{number}. {step.question}")
            told.append(f"   {step.answer}: {step.evidence}{places}")
            told.append(f"   → {step.decision}")
        if not self.cause:
            told.append("Nothing was found that explains it; see what was skipped, and why.")
            return told
        told += [f"Most likely: {self.cause}", f"Mend: {self.mend}"]
        if self.proof is not None:
            word = "Proven" if self.proof.holds else "Tried, and not enough"
            told.append(f"{word}: {self.proof.tried}")
            told += [f"   before: {self.proof.before}", f"   after:  {self.proof.after}"]
        return told


@dataclass
class Suspect:
    """What explains the symptom so far: the first thing wrong, else the first suspicious."""

    answer: Answer = "fine"
    cause: str = ""
    mend: str = ""
    finding: Finding | None = field(default=None, repr=False)

    def consider(self, step: Step, cause: str, mend: str, finding: Finding | None) -> None:
        """Take it where it explains more than what is had."""
        rank = {"wrong": 2, "suspicious": 1}
        if rank.get(step.answer, 0) > rank.get(self.answer, 0):
            self.answer, self.cause, self.mend, self.finding = step.answer, cause, mend, finding


def walk_through(
    symptom: str, stations: Sequence[Station], case: Case, findings: Sequence[Finding]
) -> tuple[Walk, Finding | None]:
    """Ask the questions of a walk, and say what explains the symptom best."""
    by_code = {each.code: each for each in findings if not each.suppressed}
    steps: list[Step] = []
    suspect = Suspect()
    for station in stations:
        step, cause, mend, finding = _ask(station, case, by_code)
        steps.append(step)
        suspect.consider(step, cause, mend, finding)
        if station.last and step.answer == "wrong":
            break
    code = suspect.finding.code if suspect.finding is not None else ""
    return Walk(symptom, tuple(steps), suspect.cause, suspect.mend, code), suspect.finding


def _ask(
    station: Station, case: Case, by_code: dict[str, Finding]
) -> tuple[Step, str, str, Finding | None]:
    if station.measure is not None:
        try:
            seen = station.measure(case)
        except Skip as reason:
            seen = Measured("unknown", str(reason))
        except (Exception, SystemExit) as error:  # the model's code may raise anything
            seen = Measured("unknown", f"not measured: {type(error).__name__}: {error}"[:300])
        decision = _decision(station, seen.answer)
        step = Step(station.question, seen.answer, excerpt(seen.evidence), decision)
        return step, seen.cause, seen.mend, None
    asked = [by_code[code] for code in station.codes if code in by_code]
    order = ("fail", "warn", "pass", "skip", "n/a")
    asked.sort(key=lambda each: order.index(each.verdict))
    if not asked:
        evidence = f"not examined ({', '.join(station.codes)})"
        step = Step(station.question, "unknown", evidence, _decision(station, "unknown"))
        return step, "", "", None
    worst = asked[0]
    answer = _ANSWERS.get(worst.verdict, "unknown")
    shown = [each for each in asked if each.verdict == worst.verdict][:2]
    evidence = "; ".join(f"{each.code}: {each.evidence}" for each in shown)
    codes = tuple(each.code for each in asked)
    decision = _decision(station, answer)
    step = Step(station.question, answer, evidence, decision, codes, worst.where)
    return step, worst.cause, worst.mend, worst


def _decision(station: Station, answer: Answer) -> str:
    if answer in ("wrong", "suspicious"):
        return station.if_wrong
    return station.if_fine if answer == "fine" else "not known; go on"
