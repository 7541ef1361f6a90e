"""Training a language model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

from gnomon.api.first_model import first_model
from gnomon.api.jobs.documents import opened
from gnomon.api.jobs.job import Say
from gnomon.api.jobs.vocabulary import kept, learned
from gnomon.doctor import Report
from gnomon.recipes.language_model import LanguageModelRecipe
from gnomon.tasks.language_folder import load_language_model
from gnomon.tasks.language_model import LanguageModel
from gnomon.tasks.language_modelling import LanguageModellingTask, LanguagePreparation
from gnomon.text.document_files import open_documents
from gnomon.text.framing import Framing, load_framing
from gnomon.training import Monitors, RunFolder, Validate


class LanguageModelJob:
    """Trains a decoder on documents (see `Job`)."""

    def __init__(self, recipe: LanguageModelRecipe, say: Say) -> None:
        self.recipe = recipe
        self.say = say
        self._base: LanguageModel | None = None
        self._preparation: LanguagePreparation | None = None

    def prepare(self, cache: Path, checkpoints: Sequence[Path], start_from: Path | None) -> None:
        """See `Job`."""
        data = self.recipe.data
        train, valid = open_documents(data)
        if start_from is not None:
            self._base = load_language_model(start_from)
            framing: Framing = self._base.vocabulary.framing
        elif checkpoints:
            framing = kept(checkpoints, load_framing)
        else:
            framing = learned(self.recipe.tokenizer, train, train.fingerprint, cache, self.say)
        self._preparation = opened((train, valid), framing, data.context, cache, self.say)

    @property
    def preparation(self) -> LanguagePreparation:
        """What `prepare` made."""
        assert self._preparation is not None, "a job is prepared first"
        return self._preparation

    def identity(self) -> dict[str, str | None]:
        """See `Job`."""
        return self.preparation.identity()

    @cached_property
    def task(self) -> LanguageModellingTask:
        """See `Job`."""
        recipe, base = self.recipe, self._base
        size = self.preparation.vocabulary.vocab_size
        if base is not None:
            size = base.model.config.vocab_size  # which may have rows that no text uses
        return LanguageModellingTask(
            first_model(recipe.model, size, None, None if base is None else base.model),
            self.preparation,
            tokens_per_batch=recipe.training.tokens_per_batch,
            seed=recipe.training.seed,
            evaluation=recipe.evaluation,
        )

    @property
    def validate(self) -> Validate | None:
        """See `Job`."""
        return None if self.preparation.valid is None else self.task.validate

    def monitors(self, folder: RunFolder) -> Monitors | None:
        """See `Job`."""
        return None

    def preflight(self, accept: Collection[str], seconds: float) -> Report | None:
        """See `Job`."""
        return None
