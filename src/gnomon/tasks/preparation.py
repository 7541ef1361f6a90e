"""From raw parallel text to what a translation can be trained on; every part cached by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gnomon.files import atomic_folder
from gnomon.text import (
    Corpora,
    DataConfig,
    Familiarity,
    ParallelCorpus,
    TokenizerConfig,
    TokenizerPair,
    TokenStore,
    open_corpora,
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Preparation:
    """Everything a translation task reads; nothing in it holds the corpus in memory."""

    corpora: Corpora
    tokenizers: TokenizerPair
    train: TokenStore
    familiarity: Familiarity


def prepare_translation(
    data: DataConfig,
    tokenizer: TokenizerConfig,
    cache: Path,
    *,
    tokenizers: TokenizerPair | None = None,
    familiarity: Familiarity | None = None,
    say: Say = lambda message: None,
) -> Preparation:
    """Open the corpora, train the tokenizer, encode every split.

    Args:
        data, tokenizer: the recipe's tables.
        cache: folder where tokenizers and token stores are kept, each named by its content.
        tokenizers: use these instead of training some (fine-tuning keeps the model's own).
        familiarity: likewise.
        say: told what is being done, one sentence at a time.

    Raises:
        DataError: a file cannot be used; see `gnomon.text`.
    """
    corpora = open_corpora(data)
    say(f"{len(corpora.train):,} training pairs" + _held_out(corpora))
    if tokenizers is None:
        tokenizers = _tokenizers(corpora.train, tokenizer, cache, say)
    train = TokenStore.build(
        cache,
        corpora.train,
        tokenizers,
        max_length=data.max_length,
        on_too_long=data.on_too_long,
    )
    say(f"{train.report.num_target_tokens:,} target tokens in {len(train):,} pairs")
    if familiarity is None:
        familiarity = Familiarity.learn(
            corpora.train.sources, None if corpora.valid is None else corpora.valid.sources
        )
    return Preparation(corpora, tokenizers, train, familiarity)


def _held_out(corpora: Corpora) -> str:
    if corpora.valid is None:
        return ""
    return f", {len(corpora.valid):,} for validation"


def _tokenizers(
    corpus: ParallelCorpus, config: TokenizerConfig, cache: Path, say: Say
) -> TokenizerPair:
    key = json.dumps([corpus.fingerprint, asdict(config)])
    place = cache / f"tokenizer-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    if not place.exists():
        say(f"learning a {config.kind} vocabulary of up to {config.vocab_size:,}")
        learned = TokenizerPair.train(corpus.sources, corpus.targets, config)
        with atomic_folder(place) as folder:
            learned.save(folder)
    return TokenizerPair.load(place)
