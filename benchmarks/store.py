"""How fast a token store is built, as a share of what `tokenizers` does by itself.

    python benchmarks/store.py [TRAIN.en TRAIN.de] [--threads 1 --threads 2] [--pairs 100000]

The bare rate is `encode_batch_fast` over the same texts, in memory already, in batches as large as
the store's chunks; nothing is done with what it returns. The store reads the files, encodes,
filters by length, writes and hashes. Both take turns in one process for each number of threads;
the table shows medians. Without files it takes the text of gnomon's own quickstart corpus.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5
BATCH = 10_000


def measure(source: Path, target: Path, vocab_size: int) -> None:
    from gnomon.text import ParallelCorpus, TokenizerConfig, TokenizerPair, TokenStore

    corpus = ParallelCorpus("train", source=source, target=target)
    config = TokenizerConfig(vocab_size=vocab_size)
    tokenizers = TokenizerPair.train(corpus.sources, corpus.targets, config)
    encoder = tokenizers.source._tokenizer
    sides = [list(corpus.sources), list(corpus.targets)]
    bare, store = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for side in sides:
            for first in range(0, len(side), BATCH):
                encoder.encode_batch_fast(side[first : first + BATCH], add_special_tokens=False)
        bare.append(len(corpus) / (time.perf_counter() - start))
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            TokenStore.build(folder, corpus, tokenizers)
            store.append(len(corpus) / (time.perf_counter() - start))
    print(statistics.median(bare), statistics.median(store))


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
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.files, options.vocab_size)
        return
    with tempfile.TemporaryDirectory() as scratch:
        files = options.files or own_corpus(Path(scratch), options.pairs)
        print(f"{'threads':>8} {'bare pairs/s':>14} {'store pairs/s':>14} {'share':>7}")
        for threads in options.threads or sorted({1, os.cpu_count() or 1}):
            # RAYON_NUM_THREADS is read once, when the first batch is encoded.
            environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
            command = [sys.executable, __file__, "--measure", *map(str, files)]
            command += ["--vocab-size", str(options.vocab_size)]
            found = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            bare, store = map(float, found.stdout.split())
            print(f"{threads:>8} {bare:>14,.0f} {store:>14,.0f} {store / bare:>7.2f}")


if __name__ == "__main__":
    main()
