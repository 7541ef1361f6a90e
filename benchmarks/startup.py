"""How long a user waits before gnomon says anything: `gnomon --help` and `import gnomon`.

Prints one JSON line per measurement and exits 1 when a median is over its bound.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HELP = [sys.executable, "-m", "gnomon", "--help"]
IMPORT = [sys.executable, "-c", "import gnomon"]
NOTHING = [sys.executable, "-c", "pass"]

HELP_BOUND = 0.3
IMPORT_BOUND = 0.1  # beyond what Python itself needs to start


def main() -> int:
    options = parse_arguments()
    for command in (HELP, IMPORT, NOTHING):
        seconds_of(command)  # byte-compiles and fills the disk cache
    # The three take turns, so that a busy moment of the machine hits all of them.
    rounds = [
        (seconds_of(HELP), seconds_of(IMPORT), seconds_of(NOTHING)) for _ in range(options.rounds)
    ]
    help_, import_, nothing = (statistics.median(column) for column in zip(*rounds, strict=True))
    within = [
        report("gnomon --help", help_, help_, options.help_bound),
        report("import gnomon", import_, import_ - nothing, options.import_bound, python=nothing),
    ]
    return 0 if all(within) else 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="repetitions (default 9)")
    parser.add_argument("--help-bound", type=float, default=HELP_BOUND, metavar="SECONDS")
    parser.add_argument("--import-bound", type=float, default=IMPORT_BOUND, metavar="SECONDS")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def seconds_of(command: list[str]) -> float:
    """Wall time of one fresh process."""
    started = time.perf_counter()
    done = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""},
        check=False,
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-5:])
        raise SystemExit(f"error: {' '.join(command)} failed:\n{tail}")
    return seconds


def report(what: str, seconds: float, judged: float, bound: float, **others: float) -> bool:
    """Print one JSON line; whether `judged` is within `bound`."""
    figures = {"seconds": seconds, "judged_seconds": judged, **others}
    line = {"what": what} | {key: round(value, 4) for key, value in figures.items()}
    print(json.dumps(line | {"bound_seconds": bound, "within": judged <= bound}))
    return judged <= bound


if __name__ == "__main__":
    sys.exit(main())
