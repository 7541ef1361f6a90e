"""Training a language model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnomon.api.first_model import first_model
from gnomon.api.jobs.documents import DocumentJob
from gnomon.api.jobs.vocabulary import kept, learned
from gnomon.recipes import LanguageModelRecipe
from gnomon.tasks.language_folder import Manner, load_language_model, read_manner
from gnomon.tasks.language_model import LanguageModel
from gnomon.tasks.language_modelling import LanguageModellingTask
from gnomon.text.document_files import DocumentSource
from gnomon.text.framing import Framing, load_framing
from gnomon.text.vocabulary import Vocabulary


class LanguageModelJob(DocumentJob[LanguageModelRecipe, LanguageModellingTask]):
    """Trains a decoder on documents (see `Job`)."""

    _base: LanguageModel | None = None
    _manner: Manner | None = None  # of the model that the run began with

    def _framing(
        self,
        train: DocumentSource,
        cache: Path,
        checkpoints: Sequence[Path],
        start_from: Path | None,
    ) -> Framing:
        if start_from is not None:
            self._base = load_language_model(start_from)
            self._manner = Manner(self._base.search, self._base.ends)
            return self._base.framing
        if checkpoints:
            framing = kept(checkpoints, load_framing)
            vocabulary = Vocabulary(framing)
            self._manner = kept(checkpoints, lambda folder: read_manner(folder, vocabulary))
            return framing
        return learned(self.recipe.tokenizer, train, train.fingerprint, cache, self.say)

    def _task(self) -> LanguageModellingTask:
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
            manner=self._manner,
        )
