"""Runs the doctor over the catalogue: which faults it finds, by their right cause and place.

    python -m benchmarks.faults.run [--fault 'masks/*'] [--host 'hf-*'] [--held-out] [--json OUT]

Paired: a code that also fires on the clean twin (same host, same seed) is no detection.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CACHE = Path(".bench/faults")


@dataclass(frozen=True)
class Result:
    """One fault in one host.

    Args:
        acts: what differs from the clean twin; empty: a no-op, not counted.
        verdict: "fail", "warn" or "" of the best expected code that the clean twin does not show.
        codes: expected codes that fired.
        place: whether the part at fault is named; None if the fault names none.
        others: other codes that fired and do not on the clean twin.
        skipped: expected codes whose check was skipped, with the reason.
    """

    fault: str
    host: str
    kind: str
    held_out: bool
    acts: str
    verdict: str = ""
    codes: tuple[str, ...] = ()
    place: bool | None = None
    others: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Clean:
    """A clean host: everything that is not a pass."""

    host: str
    weights: str
    findings: tuple[tuple[str, str, str], ...]  # code, verdict, evidence
    error: str = ""
    seconds: float = 0.0


def hosts(held_out: bool) -> dict[str, Any]:
    """Hosts by name: those for development with corpus and recipe, or those held out."""
    from benchmarks.faults import hosts as rooms
    from benchmarks.faults.hosts import bare

    if held_out:
        return dict(rooms.held_out_hosts())
    return {**rooms.development(), bare.CORPUS.name: bare.CORPUS, bare.RECIPE.name: bare.RECIPE}


def examine(patient: Any, only: Iterable[str] = ()) -> Any:
    """The doctor's report on a patient."""
    from gnomon.doctor import diagnose

    fields = {name: getattr(patient, name) for name in patient.__dataclass_fields__}
    return diagnose(only=list(only), cost="run", **fields)


def fired(report: Any) -> dict[str, Any]:
    """Findings that fail or warn, by code."""
    return {f.code: f for f in report if f.verdict in ("fail", "warn")}


def as_expected(code: str, expected: Iterable[str]) -> bool:
    """Whether a code is one of the right causes."""
    return any(fnmatch.fnmatch(code.rsplit("/", 1)[-1], pattern) for pattern in expected)


def expected_codes(expected: Iterable[str]) -> tuple[str, ...]:
    """All codes that are one of the right causes."""
    from gnomon.doctor.check import all_checks

    return tuple(sorted(code for code in all_checks() if as_expected(code, expected)))


class Runner:
    """Keeps what the clean twins showed, so that each is examined once."""

    def __init__(self, seed: int, guard_only: bool = False, quick: bool = False) -> None:
        self.seed = seed
        self.guard_only = guard_only
        self.quick = quick
        self._facts: dict[Any, Any] = {}
        self._clean: dict[Any, Any] = {}

    def pair(self, fault: Any, host: Any) -> Result:
        """One fault in one host."""
        from benchmarks.faults.acts import Facts, differences
        from benchmarks.faults.fault import seed_fault

        known = {
            "fault": fault.name,
            "host": host.name,
            "kind": host.kind,
            "held_out": host.held_out,
        }
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            try:
                twins = seed_fault(fault, host, self.seed, CACHE, Path(folder) / "guard")
                # Corpora lie in a new folder each time.
                key = (host.name, fault.weights if host.family else fault.name)
                if key not in self._facts:
                    self._facts[key] = Facts(twins.clean, host)
                found = differences(self._facts[key], Facts(twins.faulty, host))
                if not found or self.guard_only:
                    return Result(**known, acts=", ".join(found), seconds=_since(start))
                # Again, as the guard has made steps.
                twins = seed_fault(fault, host, self.seed, CACHE, Path(folder) / "doctor")
                only = expected_codes(fault.expected) if self.quick else ()
                if (key, only) not in self._clean:
                    self._clean[key, only] = fired(examine(twins.clean, only))
                report = examine(twins.faulty, only)
            except Exception as error:
                message = f"{type(error).__name__}: {error}"[:300]
                return Result(**known, acts="?", error=message, seconds=_since(start))
        before, after = self._clean[key, only], fired(report)
        new = {code: f for code, f in after.items() if _worse(f, before.get(code))}
        right = {code: f for code, f in new.items() if as_expected(code, fault.expected)}
        places = [place for f in right.values() for place in f.where]
        verdicts = {f.verdict for f in right.values()}
        return Result(
            **known,
            acts=", ".join(found),
            verdict="fail" if "fail" in verdicts else "warn" if verdicts else "",
            codes=tuple(sorted(right)),
            place=None if not twins.where else any(names(p, twins.where) for p in places),
            others=tuple(sorted(set(new) - set(right))),
            skipped=tuple(
                f"{f.code}: {f.evidence}"
                for f in report
                if f.verdict in ("skip", "n/a") and as_expected(f.code, fault.expected)
            ),
            seconds=_since(start),
        )

    def clean(self, host: Any, weights: Any) -> Clean:
        """What the doctor says of a host that nothing is wrong with."""
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            try:
                if host.family:
                    patient = host.patient(self.seed, weights, CACHE)
                else:
                    patient = host.make(self.seed, Path(folder))
                report = examine(patient)
            except Exception as error:
                message = f"{type(error).__name__}: {error}"[:300]
                return Clean(host.name, weights, (), message, _since(start))
        rest = tuple((f.code, f.verdict, f.evidence) for f in report if f.verdict != "pass")
        return Clean(host.name, weights, rest, "", _since(start))


def names(place: str, wanted: str) -> bool:
    """Whether a place names the part at fault, or something in it."""
    words = place.replace(",", " ").split()
    return any(word == wanted or word.startswith(f"{wanted}.") for word in words)


def _worse(finding: Any, before: Any) -> bool:
    return before is None or (finding.verdict == "fail" and before.verdict == "warn")


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 3)


def _work(task: tuple[str, bool, list[str], int, bool, bool]) -> list[Result]:
    """All chosen faults of one host, so that its clean twin is examined once."""
    from benchmarks.faults.fault import load_named

    host_name, held_out, fault_names, seed, guard_only, quick = task
    _quiet()
    runner, host = Runner(seed, guard_only, quick), hosts(held_out)[host_name]
    return [runner.pair(load_named(name), host) for name in fault_names]


def _work_clean(task: tuple[str, bool, int]) -> list[Clean]:
    host_name, held_out, seed = task
    _quiet()
    host = hosts(held_out)[host_name]
    runner = Runner(seed)
    kinds = ("fresh", "trained") if host.family else ("fresh",)
    return [runner.clean(host, weights) for weights in kinds]


def _quiet() -> None:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def _each(jobs: int, work: Any, tasks: list[Any]) -> Iterator[Any]:
    if jobs == 1:
        yield from map(work, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(work, tasks)


def choose_hosts(fault: Any, available: dict[str, Any], every: bool) -> list[str]:
    """The hosts of a fault: all that it applies to, or one of each kind, another for each fault."""
    fitting = [host for host in available.values() if fault.applies(host)]
    if every:
        return [host.name for host in fitting]
    by_kind = defaultdict(list)
    for host in fitting:
        by_kind[host.kind].append(host.name)
    turn = zlib.crc32(fault.name.encode())
    return [group[turn % len(group)] for group in by_kind.values()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--fault", default="*", help="pattern of group/name")
    parser.add_argument("--host", default="*", help="pattern of a host's name")
    parser.add_argument("--held-out", action="store_true", help="hosts kept for judging")
    parser.add_argument("--all", action="store_true", help="every host a fault applies to")
    parser.add_argument("--guard", action="store_true", help="only show that the faults act")
    parser.add_argument(
        "--quick", action="store_true", help="only the checks a fault expects; no others are told"
    )
    parser.add_argument("--no-clean", action="store_true", help="leave the clean hosts out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write everything here")
    options = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")

    from benchmarks.faults.fault import catalogue
    from benchmarks.faults.report import clean_table, summary, table

    available = hosts(options.held_out)
    chosen = defaultdict(list)
    for fault in catalogue():
        if fnmatch.fnmatch(fault.name, options.fault):
            for name in choose_hosts(fault, available, options.all or options.host != "*"):
                if fnmatch.fnmatch(name, options.host):
                    chosen[name].append(fault.name)
    tasks = [
        (name, options.held_out, names, options.seed, options.guard, options.quick)
        for name, names in chosen.items()
    ]
    results: list[Result] = []
    for group in _each(options.jobs, _work, tasks):
        results += group
        print(table(group, guard_only=options.guard), flush=True)
    clean: list[Clean] = []
    if not (options.guard or options.no_clean):
        for group in _each(
            options.jobs,
            _work_clean,
            [(name, options.held_out, options.seed) for name in chosen],
        ):
            clean += group
        print(clean_table(clean))
    print(summary(results, guard_only=options.guard))
    if options.json:
        written = {
            "results": [asdict(result) for result in results],
            "clean": [asdict(each) for each in clean],
        }
        options.json.write_text(json.dumps(written, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
