"""One fault of the catalogue, read from its file; which hosts it applies to; how it is seeded."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.faults.host import Host, Weights
from benchmarks.faults.hosts.bare import BareHost
from torch import nn

from gnomon.doctor.patient import Patient

CATALOGUE = Path(__file__).parent / "catalogue"
AnyHost = Host | BareHost


@dataclass(frozen=True)
class Fault:
    """What a file of the catalogue says.

    Args:
        name: "group/file".
        says: what the fault is, in a sentence.
        item: what it stands for.
        expected: codes that are the right cause; "recipe-*" stands for all that begin so.
        applies: which hosts it can be seeded in.
        not_on: why not in the others.
        where: part of the dotted name that must be named, of a host and its module, if any.
        weights: which weights the host has: fresh, briefly trained, or sharp.
        alter: changes the module before its training is set up around it.
        inject: changes the patient.
        threads: reports of the same fault, for those of users.
    """

    name: str
    says: str
    item: str
    expected: frozenset[str]
    applies: Callable[[AnyHost], bool]
    not_on: str
    where: Callable[[Host, nn.Module], str] | None
    weights: Weights
    alter: Callable[[nn.Module, Host], nn.Module | None] | None
    inject: Callable[[Patient, Any], Patient] | None
    threads: str

    @property
    def group(self) -> str:
        """The folder."""
        return self.name.split("/")[0]


def load(path: Path) -> Fault:
    """The fault in a file of the catalogue."""
    name = path.relative_to(CATALOGUE).with_suffix("").as_posix()
    module: Any = importlib.import_module(f"benchmarks.faults.catalogue.{name.replace('/', '.')}")
    found = Fault(
        name=name,
        says=(module.__doc__ or "").strip(),
        item=module.ITEM,
        expected=frozenset(module.EXPECTED),
        applies=module.HOSTS,
        not_on=getattr(module, "NOT_ON", ""),
        where=getattr(module, "where", None),
        weights=getattr(module, "WEIGHTS", "fresh"),
        alter=getattr(module, "alter", None),
        inject=getattr(module, "inject", None),
        threads=getattr(module, "THREADS", ""),
    )
    assert found.alter or found.inject, f"{name} has neither alter nor inject"
    return found


def load_named(name: str) -> Fault:
    """The fault of this "group/file"."""
    return load(CATALOGUE / f"{name}.py")


def catalogue() -> list[Fault]:
    """All faults, by name."""
    return [load(path) for path in sorted(CATALOGUE.glob("*/*.py"))]


def on(
    *traits: str,
    families: Collection[str] = (),
    without: Collection[str] = (),
    names: Collection[str] = (),
    has: Collection[str] = (),
    but: Collection[str] = (),
) -> Callable[[AnyHost], bool]:
    """Hosts with all `traits`, of one of `families`, without any of `without`.

    Args:
        names: only these hosts.
        but: not these hosts.
        has: fields of the host that must not be empty (decoding, rotate …).
    """

    def applies(host: AnyHost) -> bool:
        if isinstance(host, BareHost) and not host.traits & set(traits):
            return False
        return (
            host.traits.issuperset(traits)
            and (not families or host.family in families)
            and not host.traits & set(without)
            and (not names or host.name in names)
            and host.name not in but
            and all(getattr(host, field, None) for field in has)
            and ("packed" not in host.traits or "packed" in traits)
        )

    return applies


@dataclass(frozen=True)
class Seeded:
    """A clean patient and its twin with the fault, under the same seed."""

    clean: Patient
    faulty: Patient
    where: str


def seed_fault(fault: Fault, host: AnyHost, seed: int, cache: Path | None, scratch: Path) -> Seeded:
    """Build both twins.

    Args:
        cache: where briefly trained weights are kept.
        scratch: an empty folder for files.
    """
    if isinstance(host, BareHost):
        assert fault.inject is not None
        folders = [scratch / twin for twin in ("clean", "faulty")]
        for folder in folders:
            folder.mkdir(parents=True)
        clean, faulty = (host.make(seed, folder) for folder in folders)
        return Seeded(clean, fault.inject(faulty, host), "")
    clean = host.patient(seed, fault.weights, cache)
    module = host.module(seed, fault.weights, cache)
    where = fault.where(host, module) if fault.where else ""
    if fault.alter is not None:
        module = fault.alter(module, host) or module
    faulty = host.equip(module, seed)
    if fault.inject is not None:
        faulty = fault.inject(faulty, host)
    return Seeded(clean, faulty, where)
