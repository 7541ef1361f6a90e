"""Faults others wrote: does the doctor find what DEForm injects? See benchmarks/deform/README.md.

pip install 'gnomon[deform]'
python -m benchmarks.deform --json out.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

from benchmarks.deform.injection import Fault, faults
from benchmarks.deform.judge import frozen
from benchmarks.deform.subjects import SUBJECTS
from benchmarks.deform.tables import acting_table, miss_table, no_op_table, result_table
from benchmarks.deform.trial import Trial, healthy_examination, named_subject, trial
from benchmarks.patients.text import Text


def main() -> int:
    arguments = _arguments()
    cache: Path = arguments.cache
    for key in arguments.subjects:  # trained here, so that workers only load
        named_subject(key).build(Text.read(cache), cache)
    cases = [
        (fault, key)
        for key in arguments.subjects
        for fault in faults(named_subject(key).scope)
        if not arguments.operators or fault.operator in arguments.operators
    ]
    start = time.perf_counter()
    trials = []
    for done in _run(cases, cache, not arguments.acting, arguments.jobs):
        trials.append(done)
        if arguments.verbose and done.acts:
            mark = "named" if done.named else "detected" if done.detected else "missed"
            print(done.subject, done.operator, done.severity, mark, *done.new, file=sys.stderr)
    seconds = time.perf_counter() - start
    digest, kept = frozen()
    print(f"components.toml {digest[:12]} ({'frozen' if kept else 'NOT the frozen one'})\n")
    print(acting_table(trials), end="\n\n")
    print(no_op_table(trials), end="\n\n")
    if not arguments.acting:
        for by in (lambda t: t.subject, lambda t: t.component):
            print(result_table(trials, by), end="\n\n")
        print(miss_table(trials), end="\n\n")
        _print_healthy(arguments.subjects, cache)
    print(f"{len(trials)} injections, {seconds:.0f} s")
    if arguments.json:
        content = {
            "components": digest,
            "frozen": kept,
            "seconds": seconds,
            "trials": [t.as_json() for t in trials],
        }
        arguments.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    keys = [s.key for s in SUBJECTS]
    parser.add_argument("--cache", type=Path, default=Path(".bench/patients"))
    parser.add_argument("--subjects", nargs="+", choices=keys, default=keys)
    parser.add_argument("--operators", nargs="+", default=[], help="all by default")
    parser.add_argument("--acting", action="store_true", help="only which act; no doctor")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def _run(cases: list[tuple[Fault, str]], cache: Path, diagnose: bool, jobs: int) -> Iterator[Trial]:
    chosen, keys = zip(*cases, strict=True)
    if jobs == 1:
        yield from map(trial, chosen, keys, repeat(cache), repeat(diagnose))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(trial, chosen, keys, repeat(cache), repeat(diagnose))


def _print_healthy(keys: list[str], cache: Path) -> None:
    """What the doctor has to say of the twins without a fault."""
    for key in keys:
        seen = healthy_examination(key, cache)
        said = [f"{f.code} {f.verdict}: {f.evidence}" for f in seen.of("fail", "warn")]
        print(f"healthy {key} ({seen.seconds:.1f} s):", seen.error or said or "nothing")
    print()


if __name__ == "__main__":
    sys.exit(main())
