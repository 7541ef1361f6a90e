"""Pretraining an encoder further: it learns to find the tokens that another one drew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnomon.api.jobs.base import open_base, taken_over
from gnomon.api.jobs.documents import DocumentJob
from gnomon.api.jobs.vocabulary import kept
from gnomon.errors import ModelError, RecipeError
from gnomon.files import sha256_of
from gnomon.model import ClassifierConfig, ClassifierNetwork, Transformer
from gnomon.model.io import WEIGHTS_FILE
from gnomon.recipes import ReplacedTokenRecipe
from gnomon.tasks.replaced_tokens import LABELS, ReplacedTokenTask
from gnomon.tasks.replacement import Replacer
from gnomon.text.document_files import DocumentSource
from gnomon.text.framing import Framing, load_framing
from gnomon.training import choose_device
from gnomon.training.precision import choose_precision, products_in


class ReplacedTokenJob(DocumentJob[ReplacedTokenRecipe, ReplacedTokenTask]):
    """Trains an encoder to find replaced tokens (see `Job`)."""

    with_ends = True
    _generator: Transformer | None = None

    def _framing(
        self,
        train: DocumentSource,
        cache: Path,
        checkpoints: Sequence[Path],
        start_from: Path | None,
    ) -> Framing:
        """The generator's, which is opened."""
        folder = self._folder
        base = open_base(folder)
        network = base.network
        if (
            not isinstance(network, Transformer)
            or network.config.head.kind == "none"
            or base.framing.mask_id is None
        ):
            raise ModelError(
                "tokens are replaced by an encoder that guesses hidden ones",
                seen=f"{folder}: no head over its vocabulary, or no token that hides",
                mend="train one: gnomon train encoder --data FILE",
            )
        self._generator = network
        return kept(checkpoints, load_framing) if checkpoints else base.framing

    @property
    def _folder(self) -> Path:
        if self.recipe.replacement.generator is None:
            raise RecipeError(
                "replaced tokens are drawn by an encoder that guesses hidden ones",
                seen="no --from, no replacement.generator",
                mend="train one (gnomon train encoder --data FILE), then name its run with --from",
            )
        return Path(self.recipe.replacement.generator)

    def identity(self) -> dict[str, str | None]:
        """See `Job`."""
        return super().identity() | {"generator": sha256_of(self._folder / WEIGHTS_FILE)}

    def _task(self) -> ReplacedTokenTask:
        recipe, generator = self.recipe, self._generator
        assert generator is not None, "a job is prepared first"
        network = taken_over(generator, recipe.model)
        device = choose_device(recipe.training.device)
        wanted = recipe.training.precision
        precision = choose_precision(products_in(wanted) or wanted, device)
        return ReplacedTokenTask(
            ClassifierNetwork(network, ClassifierConfig(), len(LABELS), per_token=True),
            self.preparation,
            Replacer(
                generator.to(device),
                self.preparation.vocabulary,
                recipe.replacement,
                recipe.training.seed,
            ),
            autocast=precision.autocast,
            tokens_per_batch=recipe.training.tokens_per_batch,
            seed=recipe.training.seed,
        )
