"""How far `gnomon train --dry-run` is off: its seconds per step beside those of the real run.

    python benchmarks/dry_run.py                                # presets on made-up text
    python benchmarks/dry_run.py --recipe vaswani-base --steps 6 --set training.precision="fp32"
    python benchmarks/dry_run.py --src TRAIN.en --tgt TRAIN.de  # your own

Each forecast and each training is a process of its own, in turn. A training's time per step is that
of everything between the first step and the last, monitors and logs included, validations and
checkpoints not; the first steps are not timed, nor is an epoch's largest batch, which is the first.
With `--clock cpu` the seconds are those of the processor, for a machine that others use, too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from peers.corpus import MADE_UP, synthetic_pairs, write_lines

RECIPES = ["tiny", "multi30k", "small", "vaswani-base"]
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
WARMUP = 3  # steps that are not timed


def main() -> None:
    """Print a table; exit 1 where a median is more than 20 % off."""
    given = arguments()
    if given.child:
        print(json.dumps({"forecast": forecast, "train": train}[given.child](given)))
        return
    with tempfile.TemporaryDirectory(dir=given.scratch) as name:
        if given.src is None:
            for side, lines in zip(("src", "tgt"), synthetic_pairs(MADE_UP["small"]), strict=True):
                path = Path(name) / f"text.{side}"
                write_lines(path, lines)
                setattr(given, side, path)
        print("| recipe | forecast s a step | took it s | real s a step | ratio |")
        print("| --- | --- | --- | --- | --- |")
        worst = max(compare(given, recipe, Path(name)) for recipe in given.recipe or RECIPES)
    sys.exit(worst > 0.2)


def compare(given: argparse.Namespace, recipe: str, folder: Path) -> float:
    """Print a line of the table; how far the median is off."""
    rows = []
    for number in range(given.rounds):
        run = folder / f"{recipe}-{number}"
        foreseen = child(given, "forecast", recipe, run)
        real = child(given, "train", recipe, run)
        rows.append((foreseen["step"], foreseen["took"], real, foreseen["step"] / real))
    middle = [statistics.median(column) for column in zip(*rows, strict=True)]
    low, high = min(row[3] for row in rows), max(row[3] for row in rows)
    print(
        f"| {recipe} | {middle[0]:.3f} | {middle[1]:.1f} | {middle[2]:.3f} "
        f"| **{middle[3]:.2f}** ({low:.2f} to {high:.2f}) |",
        flush=True,
    )
    return abs(middle[3] - 1)


def child(given: argparse.Namespace, what: str, recipe: str, run: Path):
    """What a process of its own measures."""
    command = [sys.executable, __file__, "--child", what, "--recipe", recipe, "--run", str(run)]
    command += ["--src", str(given.src), "--tgt", str(given.tgt), "--clock", given.clock]
    command += ["--steps", str(given.steps)]
    for setting in given.set:
        command += ["--set", setting]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def recipe_of(given: argparse.Namespace):
    from gnomon import api

    steps = WARMUP + given.steps
    settings = [
        f"training.max_steps={steps}",
        "averaging.kind='none'",
        "evaluation.validation_lines=0",
    ]
    settings += ["training.validate_every=1000000", "training.checkpoint_every=1000000"]
    settings += ["data.holdout=100", *given.set]
    return api.read_recipe(given.recipe[0], source=given.src, target=given.tgt, overrides=settings)


def forecast(given: argparse.Namespace) -> dict[str, float]:
    from gnomon import api

    recipe, clock = recipe_of(given), CLOCKS[given.clock]
    api.prepare(recipe, run=given.run, say=lambda message: None)
    started = time.perf_counter()
    found = api.forecast(recipe, run=given.run, clock=clock)
    return {"step": found.seconds_per_step, "took": time.perf_counter() - started}


def train(given: argparse.Namespace) -> float:
    from gnomon import api
    from gnomon.training import Listener, StepRecord

    clock = CLOCKS[given.clock]

    class Watch(Listener):
        def on_step(self, record: StepRecord) -> None:
            times.append(clock())

    times: list[float] = []
    api.train(recipe_of(given), run=given.run, listeners=[Watch()])
    return (times[-1] - times[WARMUP - 1]) / given.steps


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", action="append", help=f"default: {', '.join(RECIPES)}")
    parser.add_argument("--src", type=Path, help="text; default: made up, with Multi30k's lengths")
    parser.add_argument("--tgt", type=Path)
    parser.add_argument("--set", action="append", default=[], help="as `gnomon train` takes it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30, help="that are timed")
    parser.add_argument("--clock", default="wall", choices=list(CLOCKS))
    parser.add_argument("--scratch", type=Path, help="folder for text and runs")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
