"""The recipe of a language model: documents, a decoder that goes on, how it is measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gnomon.evaluation.language import LANGUAGE_METRICS, LanguageEvaluationConfig
from gnomon.recipes.documents import DocumentRecipe
from gnomon.text import VocabularyConfig


@dataclass(frozen=True, kw_only=True)
class LanguageModelRecipe(DocumentRecipe):
    """What to train a language model on, how, and how to measure it."""

    task: Literal["language_model"] = "language_model"
    tokenizer: VocabularyConfig = field(default_factory=VocabularyConfig)
    evaluation: LanguageEvaluationConfig = field(default_factory=LanguageEvaluationConfig)

    def measured(self) -> tuple[str, ...]:
        """The loss, and what is made of it."""
        return LANGUAGE_METRICS

    def has_test(self) -> bool:
        """Whether there is test text."""
        return self.data.test is not None

    def problems(self) -> list[str]:
        """Rules between tables that this recipe breaks; each table answers for its own."""
        found = super().problems()
        if self.model.family != "decoder":
            found.append(
                f"task language_model needs model.family decoder; seen: {self.model.family}; "
                "mend: set model.family = 'decoder'"
            )
        return found
