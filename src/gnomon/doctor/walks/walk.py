"""A walk: the questions that a specialist asks of a symptom, in order, and where they lead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
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
    """A mend tried on a copy, with what was seen before and after.

    Attributes:
        holds: the check passes with it.
        code: of the check.
        effect: what it does to learning, in words; empty where that was not measured.
        gain: the same, as a share of the loss that is left without it.
        matters: whether that is more than chance; None: not measured.
    """

    tried: str
    before: str
    after: str
    holds: bool
    code: str = ""
    effect: str = ""
    gain: float | None = None
    matters: bool | None = None

    def lines(self) -> list[str]:
        """For people."""
        word = "Proven" if self.holds else "Tried, and not enough"
        if self.holds and self.matters is False:
            word = "Tried, without effect on the loss"
        told = [f"{word} ({self.code}): {self.tried}"]
        told += [f"   before: {self.before}", f"   after:  {self.after}"]
        return [*told, f"   effect: {self.effect}"] if self.effect else told


@dataclass(frozen=True)
class Walk:
    """A walk that was made.

    Attributes:
        cause, mend: the most likely ones; empty where nothing was found.
        code: the check that found it, if one did.
        proofs: of the likeliest mends, where they can be tried at little cost.
    """

    symptom: str
    steps: tuple[Step, ...] = ()
    cause: str = ""
    mend: str = ""
    code: str = ""
    proofs: tuple[Proof, ...] = ()

    @property
    def proof(self) -> Proof | None:
        """Of the mend that is named; None where it was not tried."""
        return next((each for each in self.proofs if each.code == self.code), None)

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
        if self.cause:
            told += [f"Most likely: {self.cause}", f"Mend: {self.mend}"]
        elif self.proofs:
            told.append(
                "Nothing was found that explains it: what is suspicious was mended on a copy, and "
                "the loss falls no faster."
            )
        else:
            told.append("Nothing was found that explains it; see what was skipped, and why.")
        named = [each for each in self.proofs if each.code == self.code]
        others = [each for each in self.proofs if each.code != self.code]
        return [*told, *(line for each in [*named, *others] for line in each.lines())]


@dataclass(frozen=True)
class Suspect:
    """What may explain the symptom: a step with something wrong or suspicious.

    Attributes:
        number: of the step, from 0.
    """

    number: int
    answer: Answer
    cause: str
    mend: str
    finding: Finding | None = field(default=None, repr=False)
    proof: Proof | None = None

    @property
    def rank(self) -> tuple[int, float, int]:
        """The lower, the likelier: what was measured to act, what is wrong, what is suspicious.

        What was mended without effect comes last.
        """
        matters = None if self.proof is None else self.proof.matters
        gain = (self.proof.gain or 0.0) if self.proof is not None else 0.0
        if matters:
            return 0, -gain, self.number
        if self.answer == "wrong":
            return 1, 0.0, self.number
        return (2 if matters is None else 3), 0.0, self.number

    @property
    def is_cleared(self) -> bool:
        """Whether its mend was seen to do nothing."""
        return self.rank[0] == 3


Prove = Callable[[Finding], "Proof | None"]
_TRIED = 3  # mends at most


def walk_through(
    symptom: str,
    stations: Sequence[Station],
    case: Case,
    findings: Sequence[Finding],
    prove: Prove = lambda _: None,
) -> Walk:
    """Ask the questions of a walk, try the likeliest mends, and say what explains it best.

    Args:
        prove: tries the mend of a finding.
    """
    by_code = {each.code: each for each in findings if not each.suppressed}
    steps: list[Step] = []
    suspects: list[Suspect] = []
    for station in stations:
        step, found = _ask(station, case, by_code)
        suspects += [replace(each, number=len(steps)) for each in found]
        steps.append(step)
        if station.last and step.answer == "wrong":
            break
    suspects.sort(key=lambda each: each.rank)
    proofs: list[Proof] = []
    for place, each in enumerate(suspects):
        proof = prove(each.finding) if each.finding and len(proofs) < _TRIED else None
        if proof is not None:
            suspects[place] = replace(each, proof=proof)
            if proof.tried in [other.tried for other in proofs]:
                continue
            proofs.append(proof)
            if proof.effect:
                step = steps[each.number]
                tried = f"{step.decision}; tried: {proof.effect}"
                steps[each.number] = replace(step, decision=tried)
    best = min(suspects, key=lambda each: each.rank, default=None)
    if best is None or best.is_cleared:
        return Walk(symptom, tuple(steps), proofs=tuple(proofs))
    code = best.finding.code if best.finding is not None else ""
    return Walk(symptom, tuple(steps), best.cause, best.mend, code, tuple(proofs))


def _ask(station: Station, case: Case, by_code: dict[str, Finding]) -> tuple[Step, list[Suspect]]:
    if station.measure is not None:
        try:
            seen = station.measure(case)
        except Skip as reason:
            seen = Measured("unknown", str(reason))
        except (Exception, SystemExit) as error:  # the model's code may raise anything
            seen = Measured("unknown", f"not measured: {type(error).__name__}: {error}"[:300])
        decision = _decision(station, seen.answer)
        step = Step(station.question, seen.answer, excerpt(seen.evidence), decision)
        suspect = Suspect(0, seen.answer, seen.cause, seen.mend)
        return step, [suspect] if seen.answer in ("wrong", "suspicious") else []
    asked = [by_code[code] for code in station.codes if code in by_code]
    order = ("fail", "warn", "pass", "skip", "n/a")
    asked.sort(key=lambda each: order.index(each.verdict))
    if not asked:
        evidence = f"not examined ({', '.join(station.codes)})"
        step = Step(station.question, "unknown", evidence, _decision(station, "unknown"))
        return step, []
    worst = asked[0]
    answer = _ANSWERS.get(worst.verdict, "unknown")
    shown = [each for each in asked if each.verdict == worst.verdict][:2]
    evidence = "; ".join(f"{each.code}: {each.evidence}" for each in shown)
    codes = tuple(each.code for each in asked)
    decision = _decision(station, answer)
    step = Step(station.question, answer, evidence, decision, codes, worst.where)
    return step, [
        Suspect(0, _ANSWERS[each.verdict], each.cause, each.mend, each)
        for each in asked
        if each.verdict in ("fail", "warn")
    ]


def _decision(station: Station, answer: Answer) -> str:
    if answer in ("wrong", "suspicious"):
        return station.if_wrong
    return station.if_fine if answer == "fine" else "not known; go on"
