"""Documents as a training reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gnomon.api.jobs.job import Say
from gnomon.tasks.language_modelling import LanguagePreparation
from gnomon.text.document_files import DocumentSource
from gnomon.text.document_store import DocumentStore
from gnomon.text.framing import Framing
from gnomon.text.vocabulary import Vocabulary


def opened(
    sources: tuple[DocumentSource, DocumentSource | None],
    framing: Framing,
    context: int,
    cache: Path,
    say: Say,
    *,
    with_ends: bool = False,
) -> LanguagePreparation:
    """Encode the documents, and tell what they are.

    Args:
        sources: of the training and the validation text.
        framing: the vocabulary.
        context: tokens of a row.
        cache: folder for what is made once and used again.
        say: is told.
        with_ends: see `DocumentStore.build`.
    """
    vocabulary = Vocabulary(framing)

    def built(source: DocumentSource) -> DocumentStore:
        return DocumentStore.build(cache, source, vocabulary, say, with_ends=with_ends)

    train = built(sources[0])
    valid = None if sources[1] is None else built(sources[1])
    for source, store in zip(sources, (train, valid), strict=True):
        for sentence in _about(source, store):
            say(sentence)
    return LanguagePreparation(vocabulary, sources, train, valid, context)


def _about(source: DocumentSource | None, store: DocumentStore | None) -> Iterator[str]:
    if source is None or store is None:
        yield "no validation text: nothing will say which checkpoint is best"
        return
    counts = store.counts
    held = " (held out)" if source.side == "held_out" else ""
    yield (
        f"{source.name}: {counts.documents:,} documents from {source.path}{held}, "
        f"{counts.tokens:,} tokens, {counts.characters:,} characters, the longest "
        f"{counts.longest:,} tokens"
    )
    if counts.unknown:
        yield (
            f"{counts.unknown:,} {source.name} tokens are characters that the vocabulary does not "
            "have (tokenizer.byte_fallback = true spells all)"
        )
