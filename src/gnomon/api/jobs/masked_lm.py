"""Pretraining an encoder."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

from gnomon.api.first_model import first_model
from gnomon.api.jobs.documents import opened
from gnomon.api.jobs.job import Say
from gnomon.api.jobs.vocabulary import kept, learned
from gnomon.doctor import Report
from gnomon.errors import RecipeError
from gnomon.recipes.masked_lm import MaskedLanguageModelRecipe
from gnomon.tasks.language_modelling import LanguagePreparation
from gnomon.tasks.masked_lm import MaskedLanguageModellingTask
from gnomon.text.document_files import open_documents
from gnomon.text.framing import MASK, load_framing
from gnomon.training import Monitors, RunFolder, Validate


class MaskedLanguageModelJob:
    """Trains an encoder to guess hidden tokens (see `Job`)."""

    def __init__(self, recipe: MaskedLanguageModelRecipe, say: Say) -> None:
        self.recipe = recipe
        self.say = say
        self._preparation: LanguagePreparation | None = None

    def prepare(self, cache: Path, checkpoints: Sequence[Path], start_from: Path | None) -> None:
        """See `Job`."""
        if start_from is not None:
            raise RecipeError(
                "an encoder's pretraining begins with weights of its own",
                seen=f"--from {start_from}",
                mend="leave it out; to fine-tune an encoder take a classifier's recipe",
            )
        train, valid = open_documents(self.recipe.data)
        framing = (
            kept(checkpoints, load_framing)
            if checkpoints
            else learned(
                self.recipe.tokenizer, train, train.fingerprint, cache, self.say, tags=[MASK]
            )
        )
        self._preparation = opened(
            (train, valid), framing, self.recipe.data.context, cache, self.say, with_ends=True
        )

    @property
    def preparation(self) -> LanguagePreparation:
        """What `prepare` made."""
        assert self._preparation is not None, "a job is prepared first"
        return self._preparation

    def identity(self) -> dict[str, str | None]:
        """See `Job`."""
        return self.preparation.identity()

    @cached_property
    def task(self) -> MaskedLanguageModellingTask:
        """See `Job`."""
        recipe = self.recipe
        return MaskedLanguageModellingTask(
            first_model(recipe.model, self.preparation.vocabulary.vocab_size, None, None),
            self.preparation,
            recipe.masking,
            tokens_per_batch=recipe.training.tokens_per_batch,
            seed=recipe.training.seed,
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
