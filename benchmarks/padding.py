"""How much of what a batch plan feeds the model is padding.

    python benchmarks/padding.py [TRAIN.en TRAIN.de] [--budget 4096 --budget 8192]

Padding is counted over source and target as they stand in the tensors, begin and end of sentence
included, and compared with two plans in the same run: examples batched as they come, and sorted
by their total length. The last line is what a training does: parts of at most 131,072 pairs are
planned by themselves, which holds a bounded number of lengths in memory. Without files lengths are
made up, of as many pairs as `--pairs` says.
"""

import argparse
import tempfile
import time
from itertools import chain
from pathlib import Path

import numpy as np

from gnomon.text import BatchPlan, ParallelCorpus, TokenizerConfig, TokenizerPair, TokenStore
from gnomon.text.epochs import Epochs
from gnomon.text.weights import Weights


class AsTheyCome(BatchPlan):
    def _by_length(self, random):
        return random.permutation(len(self.source_lengths))


class ByTotalLength(BatchPlan):
    def _by_length(self, random):
        totals = self.source_lengths + self.target_lengths
        return np.argsort(totals + random.random(len(totals)), kind="stable")


class InParts(BatchPlan):
    def epoch(self, number, part=0):
        weights = Weights([1.0], [len(self.source_lengths)], self.seed)
        epochs = Epochs(weights, self.tokens_per_batch, self.seed, **PART)
        sides = self.source_lengths, self.target_lengths
        return list(chain.from_iterable(epochs.epoch(number, *sides)))


PLANS = {
    "as they come": AsTheyCome,
    "by total length": ByTotalLength,
    "gnomon at once": BatchPlan,
    "gnomon in parts": InParts,
}
PART: dict[str, int] = {}


def made_up_lengths(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    source = np.clip(random.lognormal(2.7, 0.4, count), 3, 100).astype(np.int64)
    ratio = random.lognormal(0.05, 0.2, count)
    return source, np.clip(source * ratio, 3, 120).astype(np.int64)


def lengths_of(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    corpus = ParallelCorpus("train", source=options.source, target=options.target)
    config = TokenizerConfig(vocab_size=options.vocab_size)
    tokenizers = TokenizerPair.train(corpus.sources, corpus.targets, config)
    with tempfile.TemporaryDirectory() as folder:
        store = TokenStore.build(folder, corpus, tokenizers)
        return store.source_lengths[:], store.target_lengths[:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("target", type=Path, nargs="?")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--budget", type=int, action="append", help="padded tokens per batch")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=29_000, help="of made-up lengths")
    parser.add_argument("--part", type=int, help="pairs planned at once; default: gnomon's own")
    options = parser.parse_args()
    if options.part:
        PART["part"] = options.part
    sides = lengths_of(options) if options.source else made_up_lengths(options.pairs)
    print(f"{len(sides[0]):,} pairs")
    print(f"{'budget':>8}  {'plan':<16} {'batches':>8} {'padding':>8} {'plan an epoch':>14}")
    for budget in options.budget or [4096, 8192]:
        for name, plan_class in PLANS.items():
            plan = plan_class(*sides, budget, seed=1)
            start = time.perf_counter()
            epochs = [plan.epoch(number) for number in range(1, options.epochs + 1)]
            seconds = (time.perf_counter() - start) / len(epochs)
            padding = np.mean([plan.padding_share(batches) for batches in epochs])
            num_batches = np.mean([len(batches) for batches in epochs])
            print(
                f"{budget:>8}  {name:<16} {num_batches:>8.0f} {padding:>8.2%} "
                f"{1000 * seconds:>11.1f} ms"
            )


if __name__ == "__main__":
    main()
