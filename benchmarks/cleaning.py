"""What cleaning costs beside encoding: interleaved passes over one corpus, ratio of medians.

    python benchmarks/cleaning.py --src train.en --tgt train.de [--rounds 7]

Also printed: the seconds a gigabyte that comparing a token store with its hashes costs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gnomon.files import sha256_of
from gnomon.text import (
    CleaningConfig,
    ParallelCorpus,
    TokenizerConfig,
    TokenizerPair,
    TokenStore,
    look,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--src", required=True)
    parser.add_argument("--tgt", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    corpus = ParallelCorpus("train", source=arguments.src, target=arguments.tgt)
    pair = TokenizerPair.train(corpus.sources, corpus.targets, TokenizerConfig())

    def encode() -> None:
        with tempfile.TemporaryDirectory() as folder:
            TokenStore.build(folder, corpus, pair)

    seconds: dict[str, list[float]] = {"read": [], "clean": [], "encode": []}
    jobs: dict[str, Callable[[], object]] = {
        "read": lambda: sum(1 for _ in corpus.pairs()),
        "clean": lambda: look(corpus, CleaningConfig()),
        "encode": encode,
    }
    for _ in range(arguments.rounds):
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, median in medians.items():
        each = 1e6 * median / len(corpus)
        print(f"{name}: {median:.3f} s, {each:.1f} µs a pair")
    print(f"cleaning beside encoding: {medians['clean'] / medians['encode']:.0%}")

    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(1 << 28))
        file.flush()
        started = time.perf_counter()
        sha256_of(Path(file.name))
        print(f"hashing: {4 * (time.perf_counter() - started):.2f} s/GiB")


if __name__ == "__main__":
    main()
