"""The recipe of an encoder's pretraining: documents, hidden tokens, an encoder that guesses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gnomon.recipes.documents import DocumentRecipe
from gnomon.tasks.masking import MaskingConfig
from gnomon.text import VocabularyConfig


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelRecipe(DocumentRecipe):
    """What to pretrain an encoder on, and how."""

    task: Literal["masked_lm"] = "masked_lm"
    tokenizer: VocabularyConfig = field(default_factory=VocabularyConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)

    def measured(self) -> tuple[str, ...]:
        """The loss and how many hidden tokens are guessed."""
        return ("nll", "accuracy")

    def problems(self) -> list[str]:
        """Rules between tables that this recipe breaks; each table answers for its own."""
        found = super().problems()
        if self.model.family != "encoder" or self.model.head.kind == "none":
            found.append(
                "task masked_lm needs an encoder with a head over the vocabulary; seen: "
                f"model.family {self.model.family}, model.head.kind {self.model.head.kind}; mend: "
                "set model.family = 'encoder' and model.head.kind = 'linear' or 'transform'"
            )
        return found
