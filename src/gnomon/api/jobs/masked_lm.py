"""Pretraining an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnomon.api.first_model import first_model
from gnomon.api.jobs.documents import DocumentJob
from gnomon.api.jobs.vocabulary import kept, learned
from gnomon.errors import RecipeError
from gnomon.recipes import MaskedLanguageModelRecipe
from gnomon.tasks.masked_lm import MaskedLanguageModellingTask
from gnomon.text.document_files import DocumentSource
from gnomon.text.framing import MASK, Framing, load_framing


class MaskedLanguageModelJob(DocumentJob[MaskedLanguageModelRecipe, MaskedLanguageModellingTask]):
    """Trains an encoder to guess hidden tokens (see `Job`)."""

    with_ends = True

    def _framing(
        self,
        train: DocumentSource,
        cache: Path,
        checkpoints: Sequence[Path],
        start_from: Path | None,
    ) -> Framing:
        if start_from is not None:
            raise RecipeError(
                "an encoder's pretraining begins with weights of its own",
                seen=f"--from {start_from}",
                mend="leave it out; to fine-tune an encoder take a classifier's recipe",
            )
        if checkpoints:
            return kept(checkpoints, load_framing)
        tokenizer = self.recipe.tokenizer
        return learned(tokenizer, train, train.fingerprint, cache, self.say, tags=[MASK])

    def _task(self) -> MaskedLanguageModellingTask:
        recipe = self.recipe
        return MaskedLanguageModellingTask(
            first_model(recipe.model, self.preparation.vocabulary.vocab_size, None, None),
            self.preparation,
            recipe.masking,
            tokens_per_batch=recipe.training.tokens_per_batch,
            seed=recipe.training.seed,
        )
