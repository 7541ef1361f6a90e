"""Resident memory of training on corpora of 1, 10 and 40 times 29,000 pairs.

    python benchmarks/memory.py [--source TRAIN.en --target TRAIN.de] [--scale 1 --scale 10]

Without files the text is made of random words of one vocabulary. Files are repeated, each copy of
a line with its number behind it, so that no two lines are the same. The vocabulary is learned once,
from the smallest corpus, and given to all. Each corpus is trained for some steps in a process of
its own (the first run, which prepares the text) and for as many more in another (the run that goes
on, which finds it prepared). A thread looks every 20 ms at what `/proc/self/status` says:

- preparing, training: the peak of RssAnon before and after the first step, the memory that the
  process itself fills;
- resident: VmHWM, which also counts pages of files, libraries and the mapped store, that happen to
  be in memory. The kernel takes these back when it needs them.

Linux only. Threads are fixed at one, and the machine may be busy: memory is not a question of time.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from itertools import islice
from pathlib import Path

PAIRS = 29_000
RECIPE = """
name = "memory"
[data]
source = "{source}"
target = "{target}"
holdout = 0
max_length = 128
[tokenizer]
model_file = "{vocabulary}"
[model]
d_model = 128
num_encoder_layers = 2
num_decoder_layers = 2
attention.num_heads = 4
feedforward.size = 512
[schedule]
kind = "inverse_sqrt"
peak = 1e-3
warmup_steps = 100
[training]
precision = "fp32"
threads = 1
tokens_per_batch = 4096
max_steps = {max_steps}
checkpoint_every = 1000000
log_every = 10
"""


class Sampler(threading.Thread):
    """Looks at RssAnon until told to stop; `peak` since the last `restart`, in kB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stopped = threading.Event()
        self.peak = 0

    def run(self) -> None:
        while not self.stopped.wait(0.02):
            self.peak = max(self.peak, status("RssAnon"))

    def restart(self) -> int:
        peak, self.peak = self.peak, 0
        return peak


def status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise SystemExit(f"/proc/self/status has no {name}: this needs Linux")


def child(recipe: Path, run: Path, stop_at: int) -> None:
    """Train up to a step and print the peaks while preparing and while training."""
    from gnomon import api
    from gnomon.training import Listener

    class Watch(Listener):
        def on_start(self, record):
            peaks["preparing"] = sampler.restart()

        def on_step(self, record):
            if record.step == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)  # the loop saves and leaves

    sampler, peaks = Sampler(), {}
    sampler.start()
    api.train(recipe, run=run, listeners=[Watch()])
    sampler.stopped.set()
    sampler.join()
    print(json.dumps(peaks | {"training": sampler.peak, "resident": status("VmHWM")}))


def random_lines(seed: int):
    choose = random.Random(seed)
    words = ["".join(choose.choices("aeioulnrst", k=choose.randint(2, 8))) for _ in range(3000)]
    while True:
        yield " ".join(choose.choices(words, k=choose.randint(4, 16)))


def repeated_lines(path: Path):
    lines = path.read_text(encoding="utf-8").split("\n")
    lines = [line for line in lines if line.strip()]
    number = 0
    while True:
        for line in lines:
            yield f"{line} {number}" if number else line
        number += 1


def write_corpus(path: Path, lines, num_pairs: int) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in islice(lines, num_pairs))


def learn_vocabulary(source: Path, target: Path, folder: Path) -> Path:
    from gnomon.text import ParallelCorpus, TokenizerConfig, TokenizerPair

    corpus = ParallelCorpus("train", source=source, target=target)
    config = TokenizerConfig(vocab_size=4000)
    TokenizerPair.train(corpus.sources, corpus.targets, config).save(folder)
    return folder / "tokenizer.json"


def measure(recipe: Path, run: Path, stop_at: int) -> dict[str, int]:
    command = [sys.executable, __file__, "--child", str(recipe), str(run), str(stop_at)]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    done = subprocess.run(command, env=os.environ | one_thread, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--scale", type=int, action="append", help="times 29,000 pairs")
    parser.add_argument("--steps", type=int, default=30, help="of each of the two runs")
    parser.add_argument("--scratch", type=Path, help="folder for text and stores")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        recipe, run, stop_at = options.child
        child(Path(recipe), Path(run), int(stop_at))
        return
    scales = options.scale or [1, 10, 40]
    with tempfile.TemporaryDirectory(dir=options.scratch) as name:
        folder = Path(name)
        vocabulary = None
        first: dict[tuple[str, str], int] = {}
        print(f"{'pairs':>10} {'run':<10} {'preparing':>20} {'training':>20} {'resident':>20}  MB")
        for scale in scales:
            source, target = folder / f"{scale}.source", folder / f"{scale}.target"
            given = zip((source, target), (options.source, options.target), strict=True)
            for seed, (path, file) in enumerate(given):
                lines = repeated_lines(file) if file else random_lines(seed)
                write_corpus(path, lines, scale * PAIRS)
            vocabulary = vocabulary or learn_vocabulary(source, target, folder)
            recipe = folder / f"{scale}.toml"
            values = {"source": source, "target": target, "vocabulary": vocabulary}
            recipe.write_text(RECIPE.format(max_steps=2 * options.steps + 1, **values))
            for number, kind in enumerate(("first", "continued"), start=1):
                peaks = measure(recipe, folder / f"run-{scale}", number * options.steps)
                shown = []
                for what, peak in peaks.items():
                    base = first.setdefault((kind, what), peak)
                    shown.append(f"{peak / 1024:>10.1f} ({peak / base - 1:+7.2%})")
                print(f"{scale * PAIRS:>10,} {kind:<10} " + " ".join(shown), flush=True)


if __name__ == "__main__":
    main()
