"""gnomon's doctor beside other checkers on the same faults. See README.md beside this file.

python -m benchmarks.doctor_peers --on deform --json out.json
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from benchmarks.deform.subjects import SUBJECTS
from benchmarks.doctor_peers.pairs import Pair, from_catalogue, from_deform
from benchmarks.doctor_peers.tools import TOOLS, NotFor, Tool, asked
from benchmarks.patients.tables import markdown, share


@dataclass(frozen=True)
class Answer:
    """What one tool said of one pair; `not_for` where it does not apply."""

    tool: str
    fault: str
    group: str
    twin: str
    new: tuple[str, ...] = ()
    on_twin: tuple[str, ...] = ()
    not_for: str = ""
    seconds: float = 0.0


class Asker:
    """Asks a tool about pairs, and of each healthy twin only once."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self._twins: dict[str, set[str]] = {}

    def about(self, pair: Pair) -> Answer:
        place = {
            "tool": self.tool.name,
            "fault": pair.fault,
            "group": pair.group,
            "twin": pair.twin,
        }
        try:
            if pair.twin not in self._twins:
                self._twins[pair.twin] = asked(self.tool, pair.healthy(), pair)
            patient = pair.faulty()
            start = time.perf_counter()
            said = asked(self.tool, patient, pair)
            seconds = time.perf_counter() - start
        except NotFor as reason:
            return Answer(**place, not_for=str(reason))
        except ImportError as error:
            return Answer(**place, not_for=f"not installed: {error.name}")
        twin = self._twins[pair.twin]
        if broken := [alarm for alarm in twin if alarm.startswith("raised ")]:
            return Answer(**place, not_for=f"breaks on the healthy model ({broken[0][7:]})")
        return Answer(
            **place, new=tuple(sorted(said - twin)), on_twin=tuple(sorted(twin)), seconds=seconds
        )


def summary(answers: Sequence[Answer]) -> str:
    """One row a tool: on all faults, on those that it is for, and its alarms on healthy twins."""
    rows = []
    for tool in dict.fromkeys(a.tool for a in answers):
        own = [a for a in answers if a.tool == tool]
        fit = [a for a in own if not a.not_for]
        found = sum(bool(a.new) for a in fit)
        twins = {a.twin: a.on_twin for a in fit}
        seconds = sorted(a.seconds for a in fit) or [0.0]
        reasons = dict.fromkeys(a.not_for for a in own if a.not_for)
        rows.append(
            (
                tool,
                share(found, len(own)),
                share(found, len(fit)),
                share(sum(bool(said) for said in twins.values()), len(twins)),
                f"{seconds[len(seconds) // 2]:.2f}",
                "; ".join(reasons),
            )
        )
    header = (
        "tool",
        "of all faults",
        "of those it is for",
        "healthy twins with an alarm",
        "median s",
        "not for",
    )
    return markdown(header, rows)


def by_group(answers: Sequence[Answer]) -> str:
    """Detected of all faults, group by group."""
    tools = list(dict.fromkeys(a.tool for a in answers))
    rows = []
    for group in dict.fromkeys(a.group for a in answers):
        cells = []
        for tool in tools:
            own = [a for a in answers if a.tool == tool and a.group == group]
            cells.append(f"{sum(bool(a.new) for a in own)}/{len(own)}")
        rows.append((group, *cells))
    return markdown(("group", *tools), rows)


def main() -> int:
    names = [tool.name for tool in TOOLS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--on", choices=("deform", "catalogue"), default="catalogue")
    parser.add_argument("--cache", type=Path, default=Path(".bench/patients"))
    parser.add_argument("--models", nargs="+", default=[], help="subjects of DEForm, or hosts")
    parser.add_argument("--faults", nargs="+", default=[], help="names that begin so")
    parser.add_argument("--tools", nargs="+", choices=names, default=names)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    wanted = tuple(arguments.faults) or ("",)
    if arguments.on == "deform":
        subjects = arguments.models or [s.key for s in SUBJECTS]
        pairs = from_deform(arguments.cache, subjects, wanted)
    else:
        pairs = from_catalogue(arguments.cache, arguments.models, wanted)
    askers = [Asker(tool) for tool in TOOLS if tool.name in arguments.tools]
    start = time.perf_counter()
    answers = []
    for pair in pairs:
        own = [asker.about(pair) for asker in askers]
        marks = " ".join(f"{a.tool}={'-' if a.not_for else int(bool(a.new))}" for a in own)
        print(pair.twin, pair.fault, marks, file=sys.stderr, flush=True)
        answers += own
    if not answers:
        print("no pairs: the catalogue is not there, or nothing fits --models and --faults")
        return 1
    print(summary(answers), by_group(answers), sep="\n\n")
    seconds = time.perf_counter() - start
    print(f"\n{len(answers) // len(askers)} pairs, {seconds:.0f} s")
    if arguments.json:
        content = {"seconds": seconds, "answers": [asdict(a) for a in answers]}
        arguments.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
