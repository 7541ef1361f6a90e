"""The recipe of an encoder's pretraining: documents, hidden tokens, an encoder that guesses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gnomon.recipes.recipe import Recipe
from gnomon.recipes.rows import row_problems
from gnomon.tasks.masking import MaskingConfig
from gnomon.text import VocabularyConfig
from gnomon.text.document_files import DocumentsConfig


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelRecipe(Recipe):
    """What to pretrain an encoder on, and how."""

    task: Literal["masked_lm"] = "masked_lm"
    data: DocumentsConfig = field(default_factory=DocumentsConfig)
    tokenizer: VocabularyConfig = field(default_factory=VocabularyConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)

    def measured(self) -> tuple[str, ...]:
        """The loss and how many hidden tokens are guessed."""
        return ("nll", "accuracy")

    def longest_example(self) -> int:
        """A row."""
        return self.data.context

    def has_test(self) -> bool:
        """An encoder is judged by what it is fine-tuned for."""
        return False

    def problems(self) -> list[str]:
        """Rules between tables that this recipe breaks; each table answers for its own."""
        found = super().problems()
        if self.model.family != "encoder" or self.model.head.kind == "none":
            found.append(
                "task masked_lm needs an encoder with a head over the vocabulary; seen: "
                f"model.family {self.model.family}, model.head.kind {self.model.head.kind}; mend: "
                "set model.family = 'encoder' and model.head.kind = 'linear' or 'transform'"
            )
        return found + row_problems(self.model, self.data, self.training)

    def unused(self) -> list[str]:
        """Keys of one table that another table leaves without effect."""
        found = super().unused()
        if self.data.test is not None:
            found.append("data.test has no effect: an encoder is judged by what it is tuned for")
        return found
