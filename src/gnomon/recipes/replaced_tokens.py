"""The recipe of a detector: documents, a generator that replaces tokens, who finds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gnomon.recipes.recipe import Recipe
from gnomon.recipes.rows import row_problems
from gnomon.tasks.replacement import ReplacementConfig
from gnomon.text.document_files import DocumentsConfig


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenRecipe(Recipe):
    """What to pretrain an encoder on further, once it guesses hidden tokens, and how.

    Network and vocabulary are the generator's.
    """

    task: Literal["replaced_tokens"] = "replaced_tokens"
    data: DocumentsConfig = field(default_factory=DocumentsConfig)
    replacement: ReplacementConfig = field(default_factory=ReplacementConfig)

    def measured(self) -> tuple[str, ...]:
        """The loss, how many tokens are told right, and how well the replaced ones are found."""
        return ("nll", "accuracy", "f1")

    def longest_example(self) -> int:
        """A row."""
        return self.data.context

    def has_test(self) -> bool:
        """An encoder is judged by what it is fine-tuned for."""
        return False

    def problems(self) -> list[str]:
        """Rules between tables that this recipe breaks; each table answers for its own."""
        found = super().problems()
        if self.model.family != "encoder":
            found.append(
                "task replaced_tokens needs an encoder; seen: model.family "
                f"{self.model.family}; mend: set model.family = 'encoder'"
            )
        return found + row_problems(self.model, self.data, self.training)

    def unused(self) -> list[str]:
        """Keys of one table that another table leaves without effect."""
        found = super().unused()
        if self.data.test is not None:
            found.append("data.test has no effect: an encoder is judged by what it is tuned for")
        return found
