"""What workers on Ray cost and give: `gnomon translate --on ray` beside the plain verb.

    python benchmarks/bulk.py runs/quickstart --text in.txt --lines 5000 20000 --workers 2

Both translate the same lines from the command line to the last byte on the disk, start included,
with as many threads together; they take turns. The plain verb is also told with one thread.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path


def main() -> None:
    given = parse_arguments()
    print(f"| lines | way | seconds | lines/s | times the plain verb's {given.workers} threads |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for num_lines in given.lines:
            text = Path(folder) / "text"
            with given.text.open("rb") as file:
                text.write_bytes(b"".join(islice(cycle(file.readlines()), num_lines)))
            seconds = measured(given, text, Path(folder) / "out")
            base = statistics.median(seconds["plain"])
            for way, found in seconds.items():
                middle = statistics.median(found)
                print(
                    f"| {num_lines:,} | {way} | {middle:,.1f} | {num_lines / middle:,.0f} "
                    f"| {base / middle:.2f} |"
                )


def measured(given: argparse.Namespace, text: Path, out: Path) -> dict[str, list[float]]:
    """Seconds of each way, by turns."""
    ray = ["--on", "ray", "--workers", str(given.workers), "--part-lines", str(given.part_lines)]
    ways = {
        "plain": (given.workers, []),
        "plain, one thread": (1, []),
        f"{given.workers} workers": (1, ray),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(given.rounds):
        for way, (threads, options) in ways.items():
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            command = [sys.executable, "-m", "gnomon", "translate", str(given.model), *options]
            command += ["-i", str(text), "-o", str(out / "text"), "--beam", str(given.beam)]
            started = time.perf_counter()
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
            subprocess.run(command, env=environment, check=True, capture_output=True)
            seconds[way].append(time.perf_counter() - started)
    return seconds


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", type=Path, required=True, help="lines, taken again and again")
    parser.add_argument("--lines", type=int, nargs="+", default=[5000, 20000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--part-lines", type=int, default=1024)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
