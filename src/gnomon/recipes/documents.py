"""What recipes of trainings on documents share: the text, and rows that fit."""

from __future__ import annotations

from dataclasses import dataclass, field

from gnomon.recipes.recipe import Recipe
from gnomon.text.document_files import DocumentsConfig


@dataclass(frozen=True, kw_only=True)
class DocumentRecipe(Recipe):
    """A recipe whose text are documents, packed into rows."""

    data: DocumentsConfig = field(default_factory=DocumentsConfig)

    def longest_example(self) -> int:
        """A row."""
        return self.data.context

    def has_test(self) -> bool:
        """Not unless its task says so: an encoder is judged by what it is fine-tuned for."""
        return False

    def problems(self) -> list[str]:
        """Rules between tables that this recipe breaks; each table answers for its own."""
        found = super().problems()
        reach = self.model.max_positions()
        if reach is not None and self.data.context > reach:
            found.append(
                f"learned positions must reach a whole row; seen: data.context {self.data.context},"
                f" model.position.max_length {reach}; mend: lower the first or raise the second"
            )
        if self.training.tokens_per_batch < self.data.context:
            found.append(
                "training.tokens_per_batch must hold a row; seen: "
                f"{self.training.tokens_per_batch}, data.context {self.data.context}; mend: raise "
                "the first or lower the second"
            )
        return found

    def unused(self) -> list[str]:
        """Keys of one table that another table leaves without effect."""
        found = super().unused()
        if self.data.test is not None and not self.has_test():
            found.append("data.test has no effect: an encoder is judged by what it is tuned for")
        return found
