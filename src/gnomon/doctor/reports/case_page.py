"""What a case offers a check, as a page of the documentation, written from the code itself."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from gnomon.doctor import facts
from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.facts.attention.sights import Sight
from gnomon.doctor.remembering import fact, is_remembered
from gnomon.doctor.run import Run

_INNER = {"once"}  # what facts are made with
_OPENING = """# What a check can ask

A [check](../../how-to/write-a-check.md) is handed a `Case`. Facts are computed at the first
question and kept for all later checks, so ask as often as you like. One that is not to be had
raises `Skip` or `NotApplicable`, and the check is reported so with its reason: nothing needs to be
caught. B: rows; T, S: positions of queries and keys; H: heads; D: width; V: vocabulary."""


def case_page() -> str:
    """Markdown: the case, the calls and runs it gives, and facts with a file of their own."""
    parts = [_OPENING]
    for kind, name, opening in (
        (Case, "case", "The case"),
        (Call, "call", "A call: the inputs of one forward pass"),
        (Run, "run", "A run: what a call gave"),
        (Sight, "sight", "A sight: who sees whom in one attention call"),
    ):
        parts += [f"## {opening}", _table(_members(kind, name))]
    parts += [
        "## Facts with a file of their own",
        "Functions of the case, remembered as its own facts are.",
        _table(_beside()),
    ]
    return "\n\n".join(parts) + "\n"


def _table(rows: Iterator[tuple[str, str, str]]) -> str:
    lines = ["| ask | gives | what it is |", "| --- | --- | --- |"]
    lines += [f"| `{ask}` | `{_cell(gives)}` | {_cell(what)} |" for ask, gives, what in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _members(kind: type, name: str) -> Iterator[tuple[str, str, str]]:
    if is_dataclass(kind):
        told = _attributes(kind)
        for each in fields(kind):
            yield f"{name}.{each.name}", str(each.type), told.get(each.name, "")
    for member, value in vars(kind).items():
        if member.startswith("_") or member in _INNER:
            continue
        if isinstance(value, fact):
            yield f"{name}.{member}", _gives(value.compute), _what(value.compute)
        elif isinstance(value, property) and value.fget is not None:
            yield f"{name}.{member}", _gives(value.fget), _what(value.fget)
        elif inspect.isfunction(value):
            yield f"{name}.{member}({_takes(value)})", _gives(value), _what(value)


def _beside() -> Iterator[tuple[str, str, str]]:
    for module in pkgutil.walk_packages(facts.__path__, f"{facts.__name__}."):
        if module.ispkg:
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if inspect.isfunction(value) and is_remembered(value) and name[0] != "_":
                if value.__module__ != module.name:  # imported
                    continue
                inner = inspect.unwrap(value)
                place = module.name.removeprefix("gnomon.")
                ask = ", ".join(filter(None, ("case", _takes(inner))))
                yield f"{place}.{name}({ask})", _gives(inner), _what(inner)


def _takes(function: Callable[..., Any]) -> str:
    """Names of its arguments but the first; those that may be left out end in "=…"."""
    known = list(inspect.signature(function).parameters.values())[1:]
    return ", ".join(p.name if p.default is p.empty else f"{p.name}=…" for p in known)


def _gives(function: Callable[..., Any]) -> str:
    return str(function.__annotations__.get("return", "")) or "None"


def _what(function: Callable[..., Any]) -> str:
    """Its docstring without what it takes; when it is skipped."""
    text = inspect.getdoc(function) or ""
    what, *sections = re.split(r"^(Args|Raises):\n", text, flags=re.MULTILINE)
    raised = dict(zip(sections[::2], sections[1::2], strict=True)).get("Raises", "")
    return " ".join([*what.split(), *(["*Raises*", raised] if raised else [])])


def _attributes(kind: type) -> dict[str, str]:
    """What the docstring of a dataclass says of its fields."""
    _, _, listed = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    found: dict[str, str] = {}
    for names, told in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {5,}.*)*)", listed, re.MULTILINE):
        found |= dict.fromkeys(names.split(", "), told)
    return found
