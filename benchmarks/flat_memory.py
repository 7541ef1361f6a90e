"""Whether memory stays flat over a training, and what share of a step waits for its batch.

    python benchmarks/flat_memory.py                     # tiny, 2,000 steps; exit 1 where it grows
    python benchmarks/flat_memory.py --wait-only         # the waiting alone, at several sizes

Memory is what the process itself fills (RssAnon), looked at after each step; the first tenth of the
steps is left out, in which the largest batch comes, the doctor looks and buffers are made. Then the
median of the second tenth is compared with that of the last. Growth up to 1 % is called flat.
Waiting is from `metrics.jsonl`: planning, reading, padding and moving batches; up to 2 % is called
none. Text is made up, with Multi30k's lengths.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peers.corpus import MADE_UP, synthetic_pairs, write_lines

RECIPES = ["tiny", "multi30k", "small", "vaswani-base"]
MOST_GROWTH, MOST_WAITING = 0.01, 0.02


def main() -> None:
    """Print both tables."""
    given = arguments()
    if given.child:
        print(json.dumps(train(given)))
        return
    failed = False
    with tempfile.TemporaryDirectory(dir=given.scratch) as name:
        given.folder = Path(name)
        for side, lines in zip(("src", "tgt"), synthetic_pairs(MADE_UP["small"]), strict=True):
            write_lines(given.folder / f"text.{side}", lines)
        if not given.wait_only:
            sizes = child(given, given.recipe[0], given.steps)["sizes"]
            tenth = len(sizes) // 10
            early, late = (statistics.median(sizes[n : n + tenth]) for n in (tenth, -tenth - 1))
            growth = late / early - 1
            failed |= growth > MOST_GROWTH
            print(f"{given.recipe[0]}, {len(sizes):,} steps: {early / 1024:.1f} MB after the first")
            print(f"tenth, {late / 1024:.1f} MB in the last: {growth:+.2%}", flush=True)
        print("| recipe | data wait |\n| --- | --- |")
        for recipe in given.recipe:
            share = child(given, recipe, given.wait_steps)["wait"]
            failed |= share > MOST_WAITING
            print(f"| {recipe} | {share:.2%} |", flush=True)
    sys.exit(failed)


def child(given: argparse.Namespace, recipe: str, steps: int):
    """What a training in a process of its own sees."""
    command = [sys.executable, __file__, "--child", "--recipe", recipe, "--steps", str(steps)]
    command += ["--folder", str(given.folder)]
    for setting in given.set:
        command += ["--set", setting]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def train(given: argparse.Namespace) -> dict[str, object]:
    from gnomon import api
    from gnomon.training import Listener, StepRecord

    class Watch(Listener):
        def on_step(self, record: StepRecord) -> None:
            sizes.append(filled())
            if record.step > 3:
                waited.append(record.data_seconds)
                spent.append(record.seconds)

    sizes: list[int] = []
    waited: list[float] = []
    spent: list[float] = []
    recipe, folder = given.recipe[0], given.folder
    settings = [f"training.max_steps={given.steps}", "evaluation.validation_lines=0"]
    settings += ["training.validate_every=1000000", "training.checkpoint_every=1000000"]
    api.train(
        recipe,
        source=folder / "text.src",
        target=folder / "text.tgt",
        overrides=[*settings, "averaging.kind='none'", *given.set],
        run=folder / f"{recipe}-{given.steps}",
        listeners=[Watch()],
    )
    return {"sizes": sizes, "wait": sum(waited) / sum(spent)}


def filled() -> int:
    """Memory of this process's own, in kB."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise SystemExit("/proc/self/status has no RssAnon: this needs Linux")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", nargs="+", default=RECIPES, help="the first is trained long")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--wait-steps", type=int, default=30)
    parser.add_argument("--wait-only", action="store_true")
    parser.add_argument("--set", action="append", default=[], help="as `gnomon train` takes it")
    parser.add_argument("--scratch", type=Path, help="folder for text and runs")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
