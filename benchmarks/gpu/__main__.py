"""Run the sections, each in a process of its own with a budget of time; see benchmarks/gpu.sh.

A section that fails or takes too long costs the others nothing, and the rows that it had are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.gpu.sections import BUDGETS, SECTIONS
from benchmarks.gpu.step import SIZES

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    given = parse_arguments()
    if given.section:
        for row in SECTIONS[given.section](given.size, given.device):
            print(json.dumps(asdict(row)), flush=True)
        return 0
    folder = given.folder or Path(os.environ.get("OUT") or ROOT / ".bench" / "gpu")
    folder.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(given.device), "size": given.size, "rows": [], "failed": {}}
    ends = time.monotonic() + 60 * given.minutes
    for name in given.only:
        budget = min(BUDGETS[name], ends - time.monotonic())
        started = time.monotonic()
        rows, problem = section(name, given, budget) if budget > 5 else ([], "no time left")
        result["rows"] += rows
        if problem:
            result["failed"][name] = problem
        result["seconds"] = result.get("seconds", 0) + round(time.monotonic() - started, 1)
        (folder / "gpu.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (folder / "gpu.md").write_text(table(result), encoding="utf-8")
    print(table(result))
    return 0 if result["rows"] else 1


def section(name: str, given: argparse.Namespace, budget: float) -> tuple[list[dict], str]:
    """The rows of a section, and what went wrong, if anything did."""
    print(f"{name} …", file=sys.stderr)
    command = [sys.executable, "-m", "benchmarks.gpu", "--section", name]
    command += ["--size", given.size, "--device", given.device]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        try:
            done = subprocess.run(command, stdout=out, stderr=errors, timeout=budget, check=False)
            problem = f"exit code {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            problem = f"not ended after {budget:.0f} s"
        for file in (out, errors):
            file.seek(0)
        rows = [json.loads(line) for line in out if line.startswith("{") and line.endswith("}\n")]
        if problem:
            said = errors.read().strip().splitlines()
            problem += f": {said[-1][:300]}" if said else ""
            print(f"  {name}: {problem}", *said[-15:], sep="\n    ", file=sys.stderr)
    return rows, problem


def machine(device: str) -> dict:
    """What is measured on."""
    import torch

    found = {"torch": torch.__version__, "date": time.strftime("%Y-%m-%d"), "device": device}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {
            "name": properties.name,
            "memory_gb": round(properties.total_memory / 1e9, 1),
            "capability": f"{properties.major}.{properties.minor}",
            "cuda": torch.version.cuda,
        }
    return found


def table(result: dict) -> str:
    """All rows as Markdown."""
    about = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    lines = [f"{about}; size {result['size']}; {result['seconds']:.0f} s\n"]
    lines += [
        "| section | what | tokens/s | MFU | peak GB | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in result["rows"]:
        rate, share, peak = (row[name] for name in ("tokens_per_second", "utilisation", "peak_gb"))
        cells = [
            row["section"],
            row["what"],
            "" if rate is None else f"{rate:,.0f}",
            "" if share is None else f"{100 * share:.1f} %",
            "" if peak is None else f"{peak:.2f}",
            row["note"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"\n{name} failed: {problem}" for name, problem in result["failed"].items()]
    return "\n".join(lines) + "\n"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="See benchmarks/gpu.sh.")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--size", choices=list(SIZES), default="base")
    parser.add_argument("--tiny", action="store_const", const="tiny", dest="size")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--minutes", type=float, default=9.5)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--section", choices=list(SECTIONS), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
