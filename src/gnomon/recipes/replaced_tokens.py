"""The recipe of a detector: documents, a generator that replaces tokens, who finds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gnomon.recipes.documents import DocumentRecipe
from gnomon.tasks.replacement import ReplacementConfig


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenRecipe(DocumentRecipe):
    """What to pretrain an encoder on further, once it guesses hidden tokens, and how.

    Network and vocabulary are the generator's.
    """

    task: Literal["replaced_tokens"] = "replaced_tokens"
    replacement: ReplacementConfig = field(default_factory=ReplacementConfig)

    def measured(self) -> tuple[str, ...]:
        """The loss, how many tokens are told right, and how well the replaced ones are found."""
        return ("nll", "accuracy", "f1")

    def problems(self) -> list[str]:
        """Rules between tables that this recipe breaks; each table answers for its own."""
        found = super().problems()
        if self.model.family != "encoder":
            found.append(
                "task replaced_tokens needs an encoder; seen: model.family "
                f"{self.model.family}; mend: set model.family = 'encoder'"
            )
        return found
