"""How fast a token store is built, as a share of what `tokenizers` does by itself.

    python benchmarks/store.py [TRAIN.en TRAIN.de] [--threads 1 --threads 2] [--pairs 100000]

The bare rate is `encode_batch_fast` over the same texts, in memory already, in batches as large as
those the store hands over; nothing is done with what it returns. The ids are in Rust until they
are asked for, so a second rate is with `.ids` read of every text, without which nobody has a use
for them. The store reads the files, encodes, filters by length, writes and hashes. All take turns
in one process for each number of threads; the table shows medians. With --cpu it is the process's
CPU time that counts, with one thread, for a machine that is not quiet. Without files it takes the
text of gnomon's own quickstart corpus.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 5


def measure(source: Path, target: Path, vocab_size: int, clock: Callable[[], float]) -> None:
    from gnomon.text import ParallelCorpus, TokenizerConfig, TokenizerPair, TokenStore
    from gnomon.text.tokenizer import _AT_ONCE as BATCH

    corpus = ParallelCorpus("train", source=source, target=target)
    config = TokenizerConfig(vocab_size=vocab_size)
    tokenizers = TokenizerPair.train(corpus.sources, corpus.targets, config)
    encoder = tokenizers.source._tokenizer
    sides = [list(corpus.sources), list(corpus.targets)]

    def encode(read_ids: bool) -> None:
        for side in sides:
            for first in range(0, len(side), BATCH):
                part = side[first : first + BATCH]
                found = encoder.encode_batch_fast(part, add_special_tokens=False)
                if read_ids:
                    [encoding.ids for encoding in found]

    def build() -> None:
        with tempfile.TemporaryDirectory() as folder:
            TokenStore.build(folder, corpus, tokenizers)

    ways = (lambda: encode(False), lambda: encode(True), build)
    rates: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for way, found in zip(ways, rates, strict=True):
            start = clock()
            way()
            found.append(len(corpus) / (clock() - start))
    print(*map(statistics.median, rates))


def own_corpus(folder: Path, num_pairs: int) -> tuple[Path, Path]:
    from gnomon.quickstart import make_corpus

    pairs = make_corpus("de").train
    paths = []
    for side in ("source", "target"):
        lines = [getattr(pair, side) for pair in pairs]
        path = folder / f"phrases.{side}"
        whole = "".join(lines[number % len(lines)] + "\n" for number in range(num_pairs))
        path.write_text(whole, encoding="utf-8")
        paths.append(path)
    return paths[0], paths[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", type=Path, nargs="*", help="source and target")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--pairs", type=int, default=100_000, help="of the quickstart corpus")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--cpu", action="store_true", help="CPU time, one thread")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        clock = time.process_time if options.cpu else time.perf_counter
        measure(*options.files, options.vocab_size, clock)
        return
    with tempfile.TemporaryDirectory() as scratch:
        files = options.files or own_corpus(Path(scratch), options.pairs)
        print(
            f"{'threads':>8} {'bare pairs/s':>14} {'with ids':>14} {'store':>14} "
            f"{'of bare':>8} {'of ids':>8}"
        )
        for threads in [1] if options.cpu else options.threads or sorted({1, os.cpu_count() or 1}):
            # RAYON_NUM_THREADS is read once, when the first batch is encoded.
            environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
            command = [sys.executable, __file__, "--measure", *map(str, files)]
            command += ["--vocab-size", str(options.vocab_size), *(["--cpu"] * options.cpu)]
            found = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            bare, ids, store = map(float, found.stdout.split())
            print(
                f"{threads:>8} {bare:>14,.0f} {ids:>14,.0f} {store:>14,.0f} "
                f"{store / bare:>8.2f} {store / ids:>8.2f}"
            )


if __name__ == "__main__":
    main()
