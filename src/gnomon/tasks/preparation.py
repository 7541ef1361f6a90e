"""From raw parallel text to what a translation can be trained on; every part cached by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gnomon.errors import DataError, ModelError
from gnomon.files import atomic_folder, lock_beside
from gnomon.text import (
    REASONS,
    AugmentationConfig,
    Cleaned,
    CleaningConfig,
    Corpora,
    DataConfig,
    Familiarity,
    ParallelCorpus,
    TokenizerConfig,
    TokenizerPair,
    TokenStore,
    Variants,
    clean,
    look,
    open_corpora,
)

Say = Callable[[str], None]
_DEFAULT_CLEANING = CleaningConfig()
_AS_IT_IS = AugmentationConfig()


@dataclass(frozen=True)
class Preparation:
    """Everything a translation task reads; nothing in it holds the corpus in memory."""

    corpora: Corpora  # with the training text as it is learned from, cleaned
    tokenizers: TokenizerPair
    train: TokenStore
    familiarity: Familiarity
    cleaned: Cleaned
    augmentation: AugmentationConfig
    cuts_sources: bool = False  # of what is too long the beginning is learned from


def prepare_translation(
    data: DataConfig,
    tokenizer: TokenizerConfig,
    cache: Path,
    *,
    seed: int = 0,
    cleaning: CleaningConfig = _DEFAULT_CLEANING,
    augmentation: AugmentationConfig = _AS_IT_IS,
    tokenizers: TokenizerPair | None = None,
    familiarity: Familiarity | None = None,
    say: Say = lambda message: None,
) -> Preparation:
    """Open the corpora, clean the training text, train the tokenizer, encode.

    Args:
        data, tokenizer: the recipe's tables.
        cache: folder where tokenizers and token stores are kept, each named by its content.
        seed: decides what BPE-dropout leaves out and augmentation changes; without them, nothing.
        cleaning: what to look for in the training text, and what to do about it.
        augmentation: how variants of the training text are changed, and what is added to it.
        tokenizers: use these instead of training some (fine-tuning keeps the model's own).
        familiarity: likewise.
        say: told what is being done, one sentence at a time.

    Raises:
        DataError: a file cannot be used; see `gnomon.text`.
    """
    corpora = open_corpora(data, cache)
    if augmentation.terms is not None:
        corpora = corpora.with_terms(augmentation.terms, augmentation.single_words)
    for sentence in _about_corpora(corpora):
        say(sentence)
    cleaned = clean(corpora.train, cleaning, cache)
    corpora = replace(corpora, train=cleaned.corpus)
    for sentence in (*_about_cleaning(cleaned), *_about_held_out(corpora, cleaning)):
        say(sentence)
    if tokenizers is None:
        tokenizers = _tokenizers(corpora.train, tokenizer, data.tags, cache, say)
    else:
        _check_tags(tokenizers, data.tags)
    train = TokenStore.build(
        cache,
        corpora.train,
        tokenizers,
        variants=Variants.of(tokenizer, augmentation, data.variants, seed),
        max_length=data.max_length,
        on_too_long=data.on_too_long,
    )
    for sentence in _about_store(train, corpora.train, augmentation):
        say(sentence)
    if familiarity is None:
        familiarity = _familiarity(corpora, cache)
    cuts = data.on_too_long == "cut"
    return Preparation(corpora, tokenizers, train, familiarity, cleaned, augmentation, cuts)


def _about_corpora(corpora: Corpora) -> Iterator[str]:
    report = corpora.report
    yield f"{len(corpora.train):,} training pairs from " + _names(corpora.train)
    if corpora.valid is None:
        yield "no validation pairs: nothing will say which checkpoint is best"
    elif report.held_out:
        yield f"{report.held_out:,} pairs are held out for validation, by hash of the source"
    else:
        yield f"{len(corpora.valid):,} validation pairs from " + _names(corpora.valid)
    for count, corpus, what in (
        (report.line_breaks, corpora.train, "training pairs have line breaks, each now a blank"),
        (
            report.valid_in_train,
            corpora.valid,
            "validation sources are trained on, so validation flatters",
        ),
        (report.test_in_train, corpora.test, "test sources are trained on, so the test flatters"),
    ):
        if count.count:
            assert corpus is not None, "what occurs, occurs somewhere"
            yield f"{count.count:,} {what}: {corpus.places(count.first_lines, count.count)}"


_DONE = {"drop": "are left out", "keep": "are kept all the same", "repair": "are repaired"}


def _about_cleaning(cleaned: Cleaned) -> Iterator[str]:
    for reason, finding in cleaned.report.in_order():
        yield (
            f"{finding.count:,} training pairs {_DONE[finding.action]}, {REASONS[reason]}: "
            f"{cleaned.corpus.places(finding.lines, finding.count)}"
        )
    if cleaned.report.findings:
        yield f"all of them, with what was seen: {cleaned.findings}"


def _about_held_out(corpora: Corpora, cleaning: CleaningConfig) -> Iterator[str]:
    """What stands in the text that models are judged on; nothing is ever left out of it."""
    for corpus, name in ((corpora.valid, "validation"), (corpora.test, "test")):
        if corpus is None:
            continue
        for reason, finding in look(corpus, cleaning).in_order():
            yield (
                f"{finding.count:,} {name} pairs show this and are kept, {REASONS[reason]}: "
                f"{corpus.places(finding.lines, finding.count)}"
            )


def _about_store(
    store: TokenStore, corpus: ParallelCorpus, augmentation: AugmentationConfig
) -> Iterator[str]:
    report = store.report
    if store.damage is not None:
        yield f"the token store was damaged and is built again ({store.damage})"
    for reason, omission in report.omitted.items():
        lines = corpus.places(omission.first_lines, omission.count)
        yield f"{omission.count:,} training pairs are left out, {reason}: {lines}"
    if cut := report.cut.count:
        lines = corpus.places(report.cut.first_lines, cut)
        yield (
            f"of {cut:,} training sources the end is not read, as they are longer than "
            f"data.max_length: {lines}"
        )
    source, target = report.num_source_tokens, report.num_target_tokens
    yield f"{source:,} source and {target:,} target tokens in {len(store):,} pairs"
    if store.num_variants > 1:
        yield f"that is one of {store.num_variants} variants that the epochs take in turn"
    if store.single_words is not None:
        yield (
            f"{int(store.single_words.sum()):,} pairs are single words; an epoch shows each "
            f"{augmentation.single_words:g} times"
        )
    if unknown := report.num_source_unknown + report.num_target_unknown:
        yield f"{unknown:,} of them are unknown to the vocabulary (tokenizer.byte_fallback is off)"


def _names(corpus: ParallelCorpus) -> str:
    return "; ".join(str(part.text) for part in corpus.parts)


def _check_tags(tokenizers: TokenizerPair, tags: Sequence[str]) -> None:
    if unknown := [tag for tag in tags if tag not in tokenizers.source.tags]:
        raise DataError(
            "a tag must be in the vocabulary, which is not learned here but taken over",
            seen=f"{', '.join(unknown)}; it holds {', '.join(tokenizers.source.tags) or 'no tags'}",
            mend="remove the tag from the recipe, or learn a vocabulary: train without --from and "
            "without tokenizer.model_file",
        )


def _tokenizers(
    corpus: ParallelCorpus, config: TokenizerConfig, tags: Sequence[str], cache: Path, say: Say
) -> TokenizerPair:
    if config.model_file is not None:
        opened = TokenizerPair.open(config.model_file, config.target_model_file)
        _check_tags(opened, tags)
        return opened
    key = json.dumps([corpus.fingerprint, config.vocabulary_options(), *([tags] if tags else [])])
    place = cache / f"tokenizer-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    with lock_beside(place):  # another process may be learning it
        try:
            return TokenizerPair.load(place)
        except ModelError:  # absent or damaged
            say(f"learning a {config.kind} vocabulary of up to {config.vocab_size:,}")
        learned = TokenizerPair.train(corpus.sources, corpus.targets, config, tags)
        with atomic_folder(place) as folder:
            learned.save(folder)
        return TokenizerPair.load(place)


def _familiarity(corpora: Corpora, cache: Path) -> Familiarity:
    valid = corpora.valid
    key = json.dumps([corpora.train.fingerprint, None if valid is None else valid.fingerprint])
    place = cache / f"familiarity-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    with lock_beside(place):  # another process may be learning it
        try:
            if found := Familiarity.load_if_there(place):
                return found
        except ModelError:  # damaged: learn it again
            pass
        learned = Familiarity.learn(corpora.train.sources, None if valid is None else valid.sources)
        with atomic_folder(place) as folder:
            learned.save(folder)
    return learned
