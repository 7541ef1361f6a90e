"""A training that is killed at random again and again ends with the bits of one that never was.

    python -m benchmarks.killed [--kills 20] [--steps 400] [--width 32]

A small translator with dropout, on one process and on two ranks (ddp, and fsdp with sharded
checkpoints written while training goes on). SIGKILL comes at a random time after the first step;
of two ranks it hits one at random, and the other must end by itself. Then all begin again from the
last checkpoint. JSON lines: after which checkpoints the kills came, and whether weights and
optimizer state are bitwise those of the whole run. Exits 1 where they are not.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from functools import partial
from multiprocessing.context import ForkProcess
from pathlib import Path

import torch
from benchmarks.distributed import FSDP, SHARDS, whole
from benchmarks.ranks import FORK, Began, finish, started, train, write_task

from gnomon.training import RunFolder

LATER = "distributed.async_checkpoints=true"
WAYS = {
    "one process": (1, []),
    "two ranks, ddp": (2, []),
    "two ranks, fsdp, asynchronous checkpoints": (2, [FSDP, SHARDS, LATER]),
}
_ENDS_BY_ITSELF = 60  # seconds that a rank may take to see that another is gone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--way", choices=[*WAYS], help="one of them; default all")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    draw, failed = random.Random(options.seed), False
    for way, (size, overrides) in WAYS.items():
        if options.way not in (None, way):
            continue
        given = [f"training.max_steps={options.steps}", "training.checkpoint_every=7"]
        given += ["model.dropout=0.2", *overrides]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_task(folder, width=options.width)
            steps = killed_often(folder, size, given, options.kills, draw)
            same = equal(folder)
        failed |= not same
        found = {"seed": options.seed, "killed after checkpoint": steps, "same bits": same}
        print(json.dumps({"way": way, **found}), flush=True)
    sys.exit(1 if failed else 0)


def killed_often(
    folder: Path, size: int, given: list[str], kills: int, draw: random.Random
) -> list[int]:
    """Train once as a whole, and once in so many pieces; the steps of the kills."""
    ranks, _ = begun(folder, size, "whole", given)
    began = time.perf_counter()
    finish(ranks)
    seconds = time.perf_counter() - began
    steps = [
        killed(folder, size, given, draw.uniform(0.0, 2.0) * seconds / kills, draw)
        for _ in range(kills)
    ]
    finish(begun(folder, size, "killed", given)[0])
    return steps


def begun(folder: Path, size: int, run: str, given: list[str]) -> tuple[list[ForkProcess], bool]:
    """A training that has come to its first step; and whether there is one left to take."""
    event = FORK.Event()
    work = partial(train, folder, run, *given, listeners=[Began(event)])
    ranks = started(folder, size, work)
    while not event.wait(0.01) and any(process.is_alive() for process in ranks):
        pass
    return ranks, event.is_set()


def killed(folder: Path, size: int, given: list[str], wait: float, draw: random.Random) -> int:
    """Train, and be killed; the step of the newest checkpoint then."""
    ranks, steps_left = begun(folder, size, "killed", given)
    if not steps_left:
        raise SystemExit("it ended before all kills: more --steps")
    time.sleep(wait)
    draw.choice(ranks).kill()
    until = time.monotonic() + _ENDS_BY_ITSELF
    for process in ranks:
        process.join(max(0.0, until - time.monotonic()))
        if process.exitcode is None:
            process.kill()
            raise SystemExit("a rank went on without the other")
    steps = RunFolder(folder / "killed").checkpoints.steps()
    return steps[-1] if steps else 0


def equal(folder: Path) -> bool:
    """Whether the two runs ended alike."""
    found, expected = whole(folder / "killed"), whole(folder / "whole")
    return found.keys() == expected.keys() and all(
        torch.equal(found[name], tensor) for name, tensor in expected.items()
    )


if __name__ == "__main__":
    main()
