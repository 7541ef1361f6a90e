"""Training a translator."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

from gnomon.api.first_model import first_model
from gnomon.api.jobs.job import Say
from gnomon.api.jobs.vocabulary import kept
from gnomon.doctor import Report
from gnomon.doctor.monitors.run import RunMonitors
from gnomon.doctor.preflight import preflight
from gnomon.evaluation import measures_of
from gnomon.recipes import TranslationRecipe
from gnomon.tasks import (
    Preparation,
    TranslationTask,
    Translator,
    load_translator,
    prepare_translation,
)
from gnomon.text import TokenizerPair
from gnomon.training import Monitors, RunFolder, Validate


class TranslationJob:
    """Trains an encoder-decoder on pairs of texts (see `Job`)."""

    def __init__(self, recipe: TranslationRecipe, say: Say) -> None:
        self.recipe = recipe
        self.say = say
        self._base: Translator | None = None
        self._preparation: Preparation | None = None

    def prepare(self, cache: Path, checkpoints: Sequence[Path], start_from: Path | None) -> None:
        """See `Job`."""
        # A score whose package is not there is told now, not at the first validation.
        measures_of(self.recipe.evaluation, ())
        tokenizers = kept(checkpoints, TokenizerPair.load) if checkpoints else None
        if start_from is not None:
            self._base = load_translator(start_from)
            tokenizers = self._base.tokenizers
        self._preparation = prepare(self.recipe, cache, tokenizers, self.say)

    @property
    def preparation(self) -> Preparation:
        """What `prepare` made."""
        assert self._preparation is not None, "a job is prepared first"
        return self._preparation

    def identity(self) -> dict[str, str | None]:
        """See `Job`."""
        corpora = self.preparation.corpora
        return {
            "training text": corpora.train.fingerprint,
            "validation text": None if corpora.valid is None else corpora.valid.fingerprint,
            "vocabulary": self.preparation.tokenizers.fingerprint,
        }

    @cached_property
    def task(self) -> TranslationTask:
        """See `Job`."""
        recipe, tokenizers = self.recipe, self.preparation.tokenizers
        base = None if self._base is None else self._base.model
        target_size = None if tokenizers.joint else tokenizers.target.vocab_size
        return TranslationTask(
            first_model(recipe.model, tokenizers.source.vocab_size, target_size, base),
            self.preparation,
            tokens_per_batch=recipe.training.tokens_per_batch,
            seed=recipe.training.seed,
            search=recipe.decoding,
            evaluation=recipe.evaluation,
        )

    @property
    def validate(self) -> Validate | None:
        """See `Job`."""
        return None if self.preparation.corpora.valid is None else self.task.validate

    def monitors(self, folder: RunFolder) -> Monitors | None:
        """See `Job`."""
        every = self.recipe.training.monitor_every
        return RunMonitors(self.task, folder, every=every) if every else None

    def preflight(self, accept: Collection[str], seconds: float) -> Report:
        """See `Job`."""
        return preflight(self.task, self.recipe, accept=accept, seconds=seconds)


def prepare(
    recipe: TranslationRecipe, cache: Path, tokenizers: TokenizerPair | None, say: Say
) -> Preparation:
    """Clean the text, train the tokenizer and encode the corpus.

    Args:
        tokenizers: to use instead of learning one.
    """
    return prepare_translation(
        recipe.data,
        recipe.tokenizer,
        cache,
        seed=recipe.training.seed,
        cleaning=recipe.cleaning,
        augmentation=recipe.augmentation,
        tokenizers=tokenizers,
        say=say,
    )
