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


@dataclass(frozen=True)
class MadeUp:
    """What made-up text is like.

    Attributes:
        source_log_words, target_log_words: natural logarithm of words per line: mean, deviation.
        correlation: of the two.
        source_lexicon, target_lexicon: distinct words.
        longest: words; longer draws are cut.
    """

    source_log_words: tuple[float, float]
    target_log_words: tuple[float, float]
    correlation: float
    source_lexicon: int
    target_lexicon: int
    longest: int = 1000
    num_pairs: int = 29_000


MADE_UP = {
    # Multi30k, English and German, as counted there.
    "small": MadeUp((2.43, 0.31), (2.35, 0.34), 0.86, 15_000, 25_000),
    # News and parliament, of all lengths: some 25 words a line, one line in ten with more than 45.
    "base": MadeUp((3.05, 0.6), (3.0, 0.6), 0.93, 60_000, 110_000, longest=100),
}


@dataclass(frozen=True)
class Corpus:
    """A folder with the same pairs as text (for gnomon) and as subwords (for the peers).

    `source_tokens` and `target_tokens` are those of all pairs, an end symbol each included.
    """

    folder: Path
    num_pairs: int
    source_tokens: int
    target_tokens: int


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


def synthetic_pairs(like: MadeUp, seed: int = 1) -> tuple[list[str], list[str]]:
    """Made-up pairs whose lengths and word frequencies are like those of real text.

    Training speed depends on lengths, not on meaning: words are drawn from a Zipf distribution
    and the two sides have nothing to do with each other except their length.
    """
    generator = random.Random(seed)
    draw_source = _zipf_words(generator, like.source_lexicon)
    draw_target = _zipf_words(generator, like.target_lexicon)
    sources, targets = [], []
    for _ in range(like.num_pairs):
        shared = generator.gauss(0, 1)
        rest = math.sqrt(1 - like.correlation**2)
        own = like.correlation * shared + rest * generator.gauss(0, 1)
        num_source = _num_words(like.source_log_words, shared, like.longest)
        num_target = _num_words(like.target_log_words, own, like.longest)
        sources.append(" ".join(draw_source(num_source)))
        targets.append(" ".join(draw_target(num_target)))
    return sources, targets


def _num_words(log_words: tuple[float, float], deviation: float, longest: int) -> int:
    mean, spread = log_words
    return min(longest, max(1, round(math.exp(mean + spread * deviation))))


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
