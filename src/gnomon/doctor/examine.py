"""Makes the checks on a patient, one after another, and leaves the patient as it was."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from gnomon.doctor.anatomy import anatomy
from gnomon.doctor.as_found import as_found, with_modes
from gnomon.doctor.case import Case
from gnomon.doctor.chatter import chatter_off
from gnomon.doctor.check import COSTS, SYMPTOMS, Check, Cost, all_checks
from gnomon.doctor.facts.loss.loss_alone import LossSteps
from gnomon.doctor.finding import Finding, NotApplicable, Outcome, Skip
from gnomon.doctor.forms import as_written, form_of, uncompiled
from gnomon.doctor.patient import Batch, Patient
from gnomon.doctor.pictures import draw_from
from gnomon.doctor.plan import Plan, estimate
from gnomon.doctor.report import Report
from gnomon.doctor.restore import untouched
from gnomon.doctor.walks import codes_of, walk
from gnomon.doctor.wording import well_worded
from gnomon.errors import DoctorError, GnomonError, in_one_line

# The model's code may raise anything, and `sys.exit` in it does not end the examination.
_ANYTHING = (Exception, SystemExit)


def diagnose(
    module: nn.Module | None = None,
    batch: Batch | None = None,
    *,
    symptom: str | None = None,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    cost: Cost = "step",
    suppress: Mapping[str, str] | None = None,
    target: str = "",
    announce: Callable[[Plan], None] | None = None,
    progress: Callable[[Finding], None] | None = None,
    pictures: bool = False,
    **fields: Any,
) -> Report:
    """Examine a model, and what else of its training is at hand.

    Everything is left as it was: modes, gradients, buffers, weights, optimizer, generators.

    Args:
        module: any PyTorch module that holds attention.
        batch: one call's inputs, as its user passes them; made up when there is none.
        symptom: only the checks that explain it, a key of `gnomon.doctor.SYMPTOMS`; the report
            then holds the walk through its questions (`report.walk`).
        only, skip: codes of checks to make, or to leave out; a group's name stands for its checks.
        cost: the most expensive class of checks to make: "static", "probe", "step" or "run".
        suppress: codes whose findings are known and accepted, with the reason.
        target: what is examined, in words, for the report.
        announce: is told the plan before the first check (`print` shows it).
        progress: is told each finding.
        pictures: whether the report's page (`report.html()`, notebooks) has pictures.
        fields: whatever else of `Patient` is at hand (optimizer, loss, schedule, tokenizer …).

    Raises:
        DoctorError: an unknown field, code, group or symptom.
    """
    known = Patient.__dataclass_fields__
    if unknown := sorted(set(fields) - set(known)):
        raise DoctorError(
            "diagnose takes what a Patient holds",
            seen=", ".join(unknown),
            mend=f"use {', '.join(sorted(known))}",
        )
    patient = Patient(module=module, batch=batch, **fields)
    chosen = choose(symptom=symptom, only=only, skip=skip, cost=cost)
    return examine(
        patient,
        chosen,
        suppress=suppress,
        target=target,
        announce=announce,
        progress=progress,
        pictures=pictures,
        symptom=symptom,
    )


def choose(
    *,
    symptom: str | None = None,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    cost: Cost = "step",
) -> tuple[Check, ...]:
    """The checks that these options mean; see `diagnose`."""
    checks = all_checks()
    groups = {each.group for each in checks.values()}
    for code in (*only, *skip):
        if code not in checks and code not in groups:
            raise DoctorError(
                "a check is named by its code or its group",
                seen=code,
                mend="`gnomon doctor --list` names all of them",
            )
    if symptom is not None and symptom not in SYMPTOMS:
        raise DoctorError(
            "this symptom is not known", seen=symptom, mend=f"one of {', '.join(SYMPTOMS)}"
        )
    asked = codes_of(symptom) if symptom is not None else set()
    if cost not in COSTS:
        raise DoctorError("this cost class is not known", seen=cost, mend=f"one of {COSTS}")
    return tuple(
        each
        for each in checks.values()
        if (not only or each.code in only or each.group in only)
        and each.code not in skip
        and each.group not in skip
        and (symptom is None or symptom in each.symptoms or each.code in asked)
        and (COSTS.index(each.cost) <= COSTS.index(cost) or each.code in only)
    )


def examine(
    patient: Patient,
    checks: Sequence[Check],
    *,
    suppress: Mapping[str, str] | None = None,
    target: str = "",
    announce: Callable[[Plan], None] | None = None,
    progress: Callable[[Finding], None] | None = None,
    pictures: bool = False,
    seconds: float = math.inf,
    described: bool = True,
    symptom: str | None = None,
) -> Report:
    """Make these checks; see `diagnose`.

    Args:
        symptom: also walk through its questions, see `gnomon.doctor.walks`.
        seconds: after so long the checks that are left are skipped.
        described: whether the report tells what the model is made of (`doctor.anatomy`).
        pictures: whether the report holds what its HTML page draws.
    """
    start = time.perf_counter()
    form = form_of(patient.module)
    patient = replace(patient, module=as_written(patient.module))
    name = target or (type(patient.module).__name__ if patient.module is not None else "")
    case = Case(patient)
    findings = []
    with (
        torch.inference_mode(False),  # gradients are looked at
        untouched(patient.module),
        as_found(patient.module),
        with_modes(patient.module),
        warnings.catch_warnings(),
        chatter_off(),
        uncompiled(),
    ):
        warnings.simplefilter("ignore")  # the model is called in ways that its user would not
        with untouched(patient.module):
            _must_only_compute(case)
        if announce is not None:
            announce(Plan(tuple(checks), estimate(case, checks), patient.module is None))
        for each in checks:
            if time.perf_counter() - start > seconds:
                finding = _skipped(each, f"the {seconds:.0f} s for the examination are used up")
            else:
                with untouched(patient.module):
                    finding = _made(each, case, suppress or {})
            findings.append(finding)
            if progress is not None:
                progress(finding)
        with untouched(patient.module):
            facts = _facts(case, described)
        drawn = draw_from(case) if pictures else {}
        with untouched(patient.module):
            walked = None if symptom is None else walk(symptom, case, findings)
    if form:
        facts["form"] = form
    return Report(name, tuple(findings), facts, time.perf_counter() - start, drawn, walked)


def _made(check: Check, case: Case, suppress: Mapping[str, str]) -> Finding:
    start = time.perf_counter()
    try:
        outcome = check.examine(case)
    except NotApplicable as reason:
        outcome = Outcome("n/a", str(reason))
    except Skip as reason:
        outcome = Outcome("skip", str(reason))
    except GnomonError as error:  # what was handed over cannot be read
        outcome = Outcome("skip", " ".join(str(error).split()))
    except _ANYTHING as error:
        outcome = Outcome("skip", f"it could not be made: {in_one_line(error, 480)}")
    wrong = outcome.verdict in ("fail", "warn")
    evidence = well_worded(outcome.evidence)
    return Finding(
        code=check.code,
        group=check.group,
        title=check.fault if wrong else check.title,
        verdict=outcome.verdict,
        evidence=evidence,
        numbers=outcome.numbers,
        where=outcome.where,
        cause=(outcome.cause or check.cause) if wrong else "",
        mend=(outcome.mend or check.mend) if wrong else "",
        reference=check.reference,
        suppressed=suppress.get(check.code, "") if wrong else "",
        seconds=time.perf_counter() - start,
    )


def _skipped(check: Check, reason: str) -> Finding:
    return Finding(check.code, check.group, check.title, "skip", reason)


def _must_only_compute(case: Case) -> None:
    """Call the loss function once.

    Raises:
        DoctorError: it steps an optimizer.
    """
    if case.patient.loss is None:
        return
    try:
        with torch.enable_grad():
            case.loss(case.brief)
    except LossSteps:
        raise
    except _ANYTHING:  # told by the checks themselves
        return


def _facts(case: Case, described: bool) -> dict[str, Any]:
    try:
        intent = case.intent
        streams = case.small.streams
    except _ANYTHING:  # nothing was inferred
        return {}
    return {
        "kind": case.kind,
        "family": intent.family,
        "causal": intent.causal,
        "known by": intent.reason,
        "anatomy": [each.as_json() for each in anatomy(case)] if described else [],
        "texts": {name: {"input": str(s.key), "pad_id": s.pad_id} for name, s in streams.items()},
    }
