"""What trainings on packed documents share: their text, and what the doctor is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from gnomon.api.jobs.job import Say
from gnomon.doctor import Report
from gnomon.doctor.monitors.run import RunMonitors
from gnomon.doctor.preflight import preflight
from gnomon.recipes import DocumentRecipe
from gnomon.tasks import DocumentPreparation, DocumentTask
from gnomon.text.document_files import DocumentSource, open_documents
from gnomon.text.document_store import DocumentStore
from gnomon.text.framing import Framing
from gnomon.text.vocabulary import Vocabulary
from gnomon.training import Monitors, RunFolder, Validate

RecipeT = TypeVar("RecipeT", bound=DocumentRecipe)
TaskT = TypeVar("TaskT", bound=DocumentTask)


class DocumentJob(ABC, Generic[RecipeT, TaskT]):
    """A training on documents (see `Job`), but for its task."""

    with_ends: ClassVar[bool] = False
    """See `DocumentStore.build`."""

    def __init__(self, recipe: RecipeT, say: Say) -> None:
        self.recipe = recipe
        self.say = say
        self._preparation: DocumentPreparation | None = None

    def prepare(self, cache: Path, checkpoints: Sequence[Path], start_from: Path | None) -> None:
        """See `Job`."""
        train, valid = open_documents(self.recipe.data)
        framing = self._framing(train, cache, checkpoints, start_from)
        vocabulary = Vocabulary(framing)
        stores = []
        for source in (train, valid):
            store = None if source is None else self._encoded(source, vocabulary, cache)
            for sentence in _about(source, store):
                self.say(sentence)
            stores.append(store)
        assert stores[0] is not None, "there is training text"
        self._preparation = DocumentPreparation(
            vocabulary, (train, valid), stores[0], stores[1], self.recipe.data.context
        )

    @abstractmethod
    def _framing(
        self,
        train: DocumentSource,
        cache: Path,
        checkpoints: Sequence[Path],
        start_from: Path | None,
    ) -> Framing:
        """The vocabulary; see `Job.prepare`."""

    def _encoded(
        self, source: DocumentSource, vocabulary: Vocabulary, cache: Path
    ) -> DocumentStore:
        return DocumentStore.build(cache, source, vocabulary, self.say, with_ends=self.with_ends)

    @property
    def preparation(self) -> DocumentPreparation:
        """What `prepare` made."""
        assert self._preparation is not None, "a job is prepared first"
        return self._preparation

    def identity(self) -> dict[str, str | None]:
        """See `Job`."""
        return self.preparation.identity()

    @cached_property
    def task(self) -> TaskT:
        """See `Job`."""
        return self._task()

    @abstractmethod
    def _task(self) -> TaskT:
        """The task with its first weights."""

    @property
    def validate(self) -> Validate | None:
        """See `Job`."""
        return None if self.preparation.valid is None else self.task.validate

    def monitors(self, folder: RunFolder) -> Monitors | None:
        """See `Job`."""
        every = self.recipe.training.monitor_every
        return RunMonitors(self.task, folder, every=every) if every else None

    def preflight(self, accept: Collection[str], seconds: float) -> Report | None:
        """See `Job`."""
        return preflight(self.task, self.recipe, accept=accept, seconds=seconds)


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
