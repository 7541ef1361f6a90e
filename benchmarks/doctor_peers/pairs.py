"""Faulty patients and their healthy twins, from DEForm and from gnomon's own catalogue."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from gnomon.doctor.patient import Patient


@dataclass(frozen=True)
class Pair:
    """One fault in one model; patients are built anew for each tool, since some leave traces.

    Attributes:
        twin: names the healthy patient; pairs of the same twin share what tools say of it.
        decoder: whether it is a causal language model without an encoder.
    """

    fault: str
    group: str
    twin: str
    decoder: bool
    healthy: Callable[[], Patient]
    faulty: Callable[[], Patient]


def from_deform(cache: Path, subjects: list[str], wanted: tuple[str, ...]) -> Iterator[Pair]:
    """Every injection of DEForm that acts and whose name begins as one of `wanted`."""
    from benchmarks.deform.injection import Fault, faults, inject
    from benchmarks.deform.trial import named_subject, trial
    from benchmarks.patients.text import Text

    text = Text.read(cache)

    def patient(key: str, fault: Fault | None = None) -> Patient:
        subject = named_subject(key)
        module = subject.build(text, cache)
        if fault is not None:
            inject(module, fault)
        return Patient(module=module, batch=subject.batch(text), **subject.fields(module, text))

    for key in subjects:
        for fault in faults(named_subject(key).scope):
            if not fault.key.startswith(wanted):
                continue
            if trial(fault, key, cache, diagnose=False).acts:
                yield Pair(
                    fault.key,
                    fault.component,
                    key,
                    named_subject(key).scope == "decoder",
                    lambda key=key: patient(key),  # type: ignore[misc]
                    lambda key=key, fault=fault: patient(key, fault),  # type: ignore[misc]
                )


def from_catalogue(cache: Path, names: list[str], wanted: tuple[str, ...]) -> Iterator[Pair]:
    """The faults of `benchmarks/faults` on every host that they apply to."""
    if importlib.util.find_spec("benchmarks.faults.fault") is None:
        return
    from benchmarks.faults.fault import catalogue, seed_fault
    from benchmarks.faults.hosts import development, held_out_hosts

    hosts = development() | held_out_hosts()
    for fault in catalogue():
        for host in hosts.values():
            if not fault.name.startswith(wanted) or (names and host.name not in names):
                continue
            if not fault.applies(host):
                continue

            def twins(fault=fault, host=host):  # type: ignore[no-untyped-def]
                return seed_fault(fault, host, 0, cache, Path(mkdtemp()))

            yield Pair(
                fault.name,
                fault.group,
                f"{host.name}{'' if fault.weights == 'fresh' else f'/{fault.weights}'}",
                host.family == "decoder",
                lambda twins=twins: twins().clean,  # type: ignore[misc]
                lambda twins=twins: twins().faulty,  # type: ignore[misc]
            )
