"""A small parallel corpus with its tokenizers and token store."""

import random

import pytest

from gnomon.text import ParallelCorpus, TokenizerConfig, TokenizerPair, TokenStore

NOUNS = {"dog": "Hund", "house": "Haus", "bridge": "Brücke", "river": "Fluss", "year": "Jahr"}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """500 pairs of 1 to 40 words; line 8 has a blank source and line 10 a blank target."""
    choose = random.Random(0)
    folder = tmp_path_factory.mktemp("corpus")
    source, target = [], []
    for number in range(500):
        words = choose.choices(list(NOUNS), k=choose.randint(1, 40))
        source.append(" " if number == 7 else " ".join(words))
        target.append("  " if number == 9 else " ".join(NOUNS[word] for word in words) + ".")
    for name, lines in (("s", source), ("t", target)):
        (folder / name).write_text("".join(line + "\n" for line in lines), "utf-8")
    return ParallelCorpus("train", source=folder / "s", target=folder / "t")


@pytest.fixture(scope="session")
def tokenizers(corpus):
    return TokenizerPair.train(corpus.sources, corpus.targets, TokenizerConfig(vocab_size=400))


@pytest.fixture(scope="session")
def store(corpus, tokenizers, tmp_path_factory):
    return TokenStore.build(tmp_path_factory.mktemp("store"), corpus, tokenizers)
