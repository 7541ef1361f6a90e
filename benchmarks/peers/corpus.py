"""The text everybody trains on: real files or a synthetic stand-in, then one set of subwords."""

import gzip
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

NUM_SPECIALS = 4
"""Every toolkit here has a padding, an unknown, a start and an end symbol."""

# Natural logarithm of words per line in Multi30k English and German: mean, deviation, correlation.
SOURCE_LOG_WORDS = (2.43, 0.31)
TARGET_LOG_WORDS = (2.35, 0.34)
CORRELATION = 0.86
NUM_SYNTHETIC_PAIRS = 29_000
SOURCE_LEXICON, TARGET_LEXICON = 15_000, 25_000  # distinct words in those files, rounded


@dataclass(frozen=True)
class Corpus:
    """A folder with the same pairs as text (for gnomon) and as subwords (for the peers)."""

    folder: Path
    num_pairs: int


class CorpusError(Exception):
    """The text files cannot be used; the message says why."""


def read_pairs(folder: Path) -> tuple[list[str], list[str]]:
    """Lines of `train.en[.gz]` and `train.de[.gz]` in `folder`."""
    sources, targets = (_read_lines(folder, f"train.{language}") for language in ("en", "de"))
    if len(sources) != len(targets):
        raise CorpusError(
            f"the two sides have the same number of lines; seen: {len(sources)} and {len(targets)}"
        )
    return sources, targets


def _read_lines(folder: Path, name: str) -> list[str]:
    for path, opener in ((folder / f"{name}.gz", gzip.open), (folder / name, open)):
        if path.is_file():
            with opener(path, "rt", encoding="utf-8", newline="\n") as file:
                return [line.rstrip("\n") for line in file]
    raise CorpusError(f"--data is a folder with train.en[.gz] and train.de[.gz]; not there: {name}")


def synthetic_pairs(seed: int = 1) -> tuple[list[str], list[str]]:
    """Made-up pairs whose lengths and word frequencies are like Multi30k's.

    Training speed depends on lengths, not on meaning: words are drawn from a Zipf distribution
    and the two sides have nothing to do with each other except their length.
    """
    generator = random.Random(seed)
    draw_source = _zipf_words(generator, SOURCE_LEXICON)
    draw_target = _zipf_words(generator, TARGET_LEXICON)
    sources, targets = [], []
    for _ in range(NUM_SYNTHETIC_PAIRS):
        shared = generator.gauss(0, 1)
        own = CORRELATION * shared + math.sqrt(1 - CORRELATION**2) * generator.gauss(0, 1)
        sources.append(" ".join(draw_source(_num_words(SOURCE_LOG_WORDS, shared))))
        targets.append(" ".join(draw_target(_num_words(TARGET_LOG_WORDS, own))))
    return sources, targets


def _num_words(log_words: tuple[float, float], deviation: float) -> int:
    mean, spread = log_words
    return max(1, round(math.exp(mean + spread * deviation)))


def _zipf_words(generator: random.Random, lexicon_size: int) -> Callable[[int], list[str]]:
    """A function that draws n words; the r-th most frequent one has weight 1 / (r + 2)."""
    syllables = [c + v for c in "bdfghklmnprstvz" for v in ("a", "e", "i", "o", "u", "an", "er")]
    lexicon: set[str] = set()
    while len(lexicon) < lexicon_size:
        lexicon.add("".join(generator.choices(syllables, k=generator.choice((1, 2, 2, 3, 3, 4)))))
    words = sorted(lexicon, key=lambda word: (len(word) + generator.random() * 6, word))
    cumulated = list(itertools.accumulate(1 / (rank + 3) for rank in range(lexicon_size)))
    return lambda n: generator.choices(words, cum_weights=cumulated, k=n)


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def write_subwords(folder: Path, source_ids: list[list[int]], target_ids: list[list[int]]) -> None:
    """Write what the peers read: subwords as words, split at spaces, and the list of them all.

    A subword is written as its number in gnomon's vocabulary, so that no toolkit's own idea of
    spaces, escapes or normalisation can change how the text is cut.
    """
    for name, lines in (("source", source_ids), ("target", target_ids)):
        words = [" ".join(map(str, ids)) for ids in lines]
        write_lines(folder / f"train.{name}", words)
        write_lines(folder / f"valid.{name}", words[:20])  # JoeyNMT will not start without


def write_vocabulary(path: Path, vocab_size: int) -> None:
    """One subword a line, special symbols left out: every toolkit adds its own four."""
    write_lines(path, [str(number) for number in range(NUM_SPECIALS, vocab_size)])
