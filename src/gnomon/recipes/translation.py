"""The recipe of a translator: pairs of texts, an encoder-decoder, a search, translation scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gnomon.decoding import SearchConfig
from gnomon.evaluation import EvaluationConfig
from gnomon.recipes.recipe import Recipe
from gnomon.text import AugmentationConfig, CleaningConfig, DataConfig, TokenizerConfig


@dataclass(frozen=True, kw_only=True)
class TranslationRecipe(Recipe):
    """What to train a translator on, how, and how to judge it."""

    task: Literal["translation"] = "translation"
    data: DataConfig = field(default_factory=DataConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    decoding: SearchConfig = field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def measured(self) -> tuple[str, ...]:
        """The loss, and the scores of the lines that validation translates."""
        return ("nll", *self.evaluation.scores)

    def longest_example(self) -> int:
        """A source and a target."""
        return 2 * self.data.max_length

    def has_test(self) -> bool:
        """Whether there are test pairs."""
        return bool(self.data.split("test"))

    def problems(self) -> list[str]:
        """Rules between tables that this recipe breaks; each table answers for its own."""
        found = super().problems()
        if self.model.family != "encoder_decoder":
            found.append(
                "task translation needs model.family encoder_decoder; "
                f"seen: {self.model.family}; mend: set model.family = 'encoder_decoder'"
            )
        if not self.tokenizer.joint and self.model.tie == "all":
            found.append(
                "model.tie = 'all' shares one table between source and target, which needs one "
                "vocabulary; seen: tokenizer.joint = false; mend: tie = 'decoder' or joint = true"
            )
        if self.augmentation.terms is not None and self.data.tags:
            found.append(
                "augmentation.terms has no tags, as all other sources must have none then; seen: "
                f"{', '.join(self.data.tags)}; mend: list the file in [[data.sources]], with its "
                "tags and a weight"
            )
        reach = self.model.max_positions()
        if reach is not None and self.data.max_length + 1 > reach:
            found.append(
                "learned positions must reach the longest training text, end of sentence included; "
                f"seen: data.max_length {self.data.max_length}, model.position.max_length {reach}; "
                "mend: lower the first or raise the second"
            )
        return found

    def unused(self) -> list[str]:
        """Keys of one table that another table leaves without effect."""
        found = super().unused()
        drawn = self.tokenizer.bpe_dropout or self.augmentation.changes_text
        if not drawn and self.data.variants != DataConfig().variants:
            found.append(
                "data.variants has no effect: neither tokenizer.bpe_dropout nor a share in "
                "[augmentation] is above 0, so all would be the same"
            )
        if self.tokenizer.lowercase and self.tokenizer.model_file is None:
            found += [
                f"augmentation.{key} has no effect: tokenizer.lowercase is on"
                for key in ("upper", "lower", "title")
                if getattr(self.augmentation, key)
            ]
        return found
