"""Every fault says what it is, applies somewhere, and acts there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.faults.acts import Facts, differences
from benchmarks.faults.fault import AnyHost, Fault, catalogue, seed_fault
from benchmarks.faults.hosts import bare, development, held_out_hosts
from benchmarks.faults.run import choose_hosts

HOSTS: dict[str, AnyHost] = {
    **development(),
    **held_out_hosts(),
    bare.CORPUS.name: bare.CORPUS,
    bare.RECIPE.name: bare.RECIPE,
}
FAULTS = {fault.name: fault for fault in catalogue()}
# A model trained for it costs a minute: that is for the runner's own `--guard --all`.
QUICK = [name for name, fault in FAULTS.items() if fault.weights != "trained"]


def acts(fault: Fault, host: AnyHost, folder: Path) -> bool:
    twins = seed_fault(fault, host, 0, None, folder)
    return bool(differences(Facts(twins.clean, host), Facts(twins.faulty, host)))


def test_there_are_enough_and_each_is_well_said() -> None:
    assert len(FAULTS) >= 80
    assert sum(fault.group == "reported" for fault in FAULTS.values()) >= 12
    for fault in FAULTS.values():
        assert fault.says.endswith(".") and "\n" not in fault.says, fault.name
        assert fault.item and fault.expected, fault.name
        assert all(re.fullmatch(r"[a-z0-9-]+\*?", code) for code in fault.expected), fault.name
        if fault.group == "reported":
            assert "#" in fault.threads, fault.name


def test_each_applies_somewhere_and_says_why_not_elsewhere() -> None:
    for fault in FAULTS.values():
        names = choose_hosts(fault, HOSTS, every=True)
        assert names, fault.name
        if len(names) < len(HOSTS) - 5:
            assert fault.not_on, f"{fault.name} applies to {names} alone and does not say why"


@pytest.mark.parametrize("name", QUICK)
def test_it_acts_on_one_of_its_hosts(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    names = choose_hosts(fault, HOSTS, every=True)
    # Another host for each fault, so that together they come by all hosts.
    host = HOSTS[names[sorted(FAULTS).index(name) % len(names)]]
    assert acts(fault, host, tmp_path), f"{name} does nothing in {host.name}"


def test_no_fault_is_no_difference(tmp_path: Path) -> None:
    host = HOSTS["annotated"]
    twins = [host.patient(0) for _ in range(2)]  # type: ignore[union-attr]
    clean, faulty = (Facts(twin, host) for twin in twins)
    assert differences(clean, faulty, all_of_them=True) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FAULTS)
def test_it_acts_on_all_of_its_hosts(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    idle = [
        host
        for host in choose_hosts(fault, HOSTS, every=True)
        if not acts(fault, HOSTS[host], tmp_path / host)
    ]
    assert not idle
