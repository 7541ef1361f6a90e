"""One fault in one subject: does it act, what does the doctor say."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from benchmarks.deform.behaviour import Behaviour, acts, behaviour, difference
from benchmarks.deform.injection import CannotInject, Fault, inject
from benchmarks.deform.judge import judge, table
from benchmarks.deform.subjects import SUBJECTS, Subject
from benchmarks.patients.examination import Examination, examine
from benchmarks.patients.text import Text

CONFORMANCE = ("conformance",)


@dataclass(frozen=True)
class Trial:
    """The record of one (fault, subject).

    `refused` says why the operator could not be put in; `views` how far each view of the model
    moved from its healthy twin's, relative, or the error it ended in.
    """

    subject: str
    operator: str
    severity: str
    component: str
    refused: str = ""
    views: dict[str, float | str] | None = None
    acts: bool = False
    loud: bool = False  # raises in every view in which it shows
    altered: tuple[str, ...] = ()
    examination: Examination | None = None
    detected: bool = False
    named: bool = False
    detected_plain: bool = False  # the same without the conformance check
    named_plain: bool = False
    right: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@cache
def _text(folder: Path) -> Text:
    return Text.read(folder)


@cache
def _healthy_behaviour(key: str, folder: Path) -> Behaviour:
    subject, text = named_subject(key), _text(folder)
    return behaviour(subject, subject.build(text, folder), text)


@cache
def healthy_examination(key: str, folder: Path) -> Examination:
    """What the doctor says of the subject without a fault."""
    subject, text = named_subject(key), _text(folder)
    return _examined(subject, subject.build(text, folder), text)


def named_subject(key: str) -> Subject:
    return next(s for s in SUBJECTS if s.key == key)


def _examined(subject: Subject, module: torch.nn.Module, text: Text) -> Examination:
    return examine(module, subject.batch(text), **subject.fields(module, text))


def trial(fault: Fault, key: str, folder: Path, diagnose: bool) -> Trial:
    """Put the fault in, see whether it acts, and ask the doctor if it does."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    subject, text = named_subject(key), _text(folder)
    record: dict[str, Any] = {
        "subject": key,
        "operator": fault.operator,
        "severity": "" if fault.value is None else str(fault.value),
        "component": fault.component,
    }
    module = subject.build(text, folder)
    try:
        record["altered"] = inject(module, fault)
    except CannotInject as error:
        return Trial(**record, refused=str(error), reason=str(error))
    views = difference(_healthy_behaviour(key, folder), behaviour(subject, module, text))
    record |= {"views": views, "acts": acts(views), "loud": _loud(views)}
    if not record["acts"]:
        return Trial(**record, reason=str(table("no_op").get(fault.operator, "?")))
    if not diagnose:
        return Trial(**record)
    module = subject.build(text, folder)  # again: some injectors remember earlier calls
    inject(module, fault)
    seen = _examined(subject, module, text)
    healthy = healthy_examination(key, folder)
    full = judge(healthy, seen, fault, subject.scope, record["altered"])
    plain = judge(healthy, seen, fault, subject.scope, record["altered"], without=CONFORMANCE)
    return Trial(
        **record,
        examination=seen,
        detected=full.detected,
        named=full.named,
        detected_plain=plain.detected,
        named_plain=plain.named,
        right=tuple(f.code for f in full.right),
        new=tuple(f.code for f in full.new),
        reason=_why_not(fault, subject, seen, full.detected, full.named),
    )


def _loud(views: dict[str, float | str]) -> bool:
    shown = [d for d in views.values() if isinstance(d, str) or d > 0]
    return bool(shown) and all(isinstance(d, str) for d in shown)


def _why_not(fault: Fault, subject: Subject, seen: Examination, detected: bool, named: bool) -> str:
    if seen.error:
        return f"the doctor broke: {seen.error}"
    if named:
        return ""
    state = subject.key.rsplit("/", 1)[-1]
    known = table("unobservable").get(f"{fault.operator}/{state}")
    if known and not detected:
        return str(known)
    return "another component was named" if detected else "no check tells it from a healthy model"
