"""False alarms: what the doctor says of healthy models. See README.md beside this file.

python -m benchmarks.false_alarms --json out.json
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import torch
from benchmarks.false_alarms.report import (
    Visit,
    counts,
    finding_table,
    limits_line,
    model_table,
    summary_table,
    visits_of,
)
from benchmarks.false_alarms.zoo import MODES, Healthy, zoo
from benchmarks.patients.examination import examine
from benchmarks.patients.text import Text

STATES = ("fresh", "trained")


@cache
def _healthy() -> dict[str, Healthy]:
    return {each.name: each for each in zoo()}


@cache
def _text(folder: Path) -> Text:
    return Text.read(folder)


def visit(name: str, states: tuple[str, ...], modes: tuple[str, ...], folder: Path) -> list[Visit]:
    """All examinations of one model."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    healthy, text = _healthy()[name], _text(folder)
    found = []
    for state in states:
        if state == "trained" and healthy.task is None:
            continue
        for mode in modes if healthy.task is not None else sorted({*modes} - {"all"}):
            module = healthy.build(text, folder, state == "trained")
            batch, fields = healthy.handed_over(module, text, mode)
            seen = examine(module, batch, **fields)
            found.append(Visit(name, healthy.group, state, mode, seen))
    return found


def _run(arguments: argparse.Namespace, names: list[str]) -> Iterator[list[Visit]]:
    rest = (tuple(arguments.states), tuple(arguments.modes), arguments.cache)
    if arguments.jobs == 1:
        for name in names:
            yield visit(name, *rest)
        return
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(visit, name, *rest) for name in names]:
            yield done.result()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path(".bench/patients"))
    parser.add_argument("--models", nargs="+", default=["*"], help="patterns of names")
    parser.add_argument("--states", nargs="+", choices=STATES, default=list(STATES))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--of", type=Path, help="only the tables of what an earlier run wrote")
    parser.add_argument("--list", action="store_true", help="names of the models, nothing else")
    arguments = parser.parse_args()
    if arguments.of:
        return _tell(visits_of(arguments.of))
    names = [n for n in _healthy() if any(fnmatch(n, p) for p in arguments.models)]
    if arguments.list:
        print("\n".join(names))
        return 0
    start = time.perf_counter()
    visits: list[Visit] = []
    for done in _run(arguments, names):
        visits += done
        if arguments.json:
            content = {"visits": [v.as_json() for v in visits]}
            arguments.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
        found = counts(done)
        print(done[0].model, dict(found), file=sys.stderr, flush=True)
    code = _tell(visits)
    print(f"{time.perf_counter() - start:.0f} s")
    return code


def _tell(visits: list[Visit]) -> int:
    """All tables; 1 where an examination broke or a fail is not justified."""
    for each in visits:
        if each.examination.error:
            print(f"broke: {each.model} {each.state} ({each.mode}): {each.examination.error}")
    print(finding_table(visits, "fail", "warn"), end="\n\n")
    print(finding_table(visits, "skip"), end="\n\n")
    print(model_table(visits), end="\n\n")
    print(summary_table(visits), end="\n\n")
    print(limits_line(visits))
    print(f"{len({v.model for v in visits})} models, {len(visits)} examinations")
    found = counts(visits)
    return 1 if found["error"] or found["unjustified fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
