"""The recipe of a classifier: labelled texts, one stack that reads them, scores of labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gnomon.evaluation.classification import ClassificationConfig
from gnomon.model import BiLSTMConfig, ClassifierConfig, LoraConfig
from gnomon.recipes.recipe import Recipe
from gnomon.tasks.adaptation import AdaptationConfig
from gnomon.text import VocabularyConfig
from gnomon.text.labelled import LabelledDataConfig


@dataclass(frozen=True, kw_only=True)
class ClassificationRecipe(Recipe):
    """What to train a classifier on, how, and how to judge it."""

    task: Literal["classification"] = "classification"
    data: LabelledDataConfig = field(default_factory=LabelledDataConfig)
    tokenizer: VocabularyConfig = field(default_factory=VocabularyConfig)
    # What reads the text: [model], or [bilstm], which is there to be compared with.
    network: Literal["transformer", "bilstm"] = "transformer"
    bilstm: BiLSTMConfig = field(default_factory=BiLSTMConfig)
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    adaptation: AdaptationConfig = field(default_factory=AdaptationConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    # balanced: a label weighs the more, the rarer it is, so that all weigh alike
    class_weights: Literal["none", "balanced"] = "none"
    evaluation: ClassificationConfig = field(default_factory=ClassificationConfig)

    def measured(self) -> tuple[str, ...]:
        """The loss and the scores of labels."""
        return ("nll", *self.evaluation.metrics)

    def longest_example(self) -> int:
        """A row."""
        return self.data.max_length

    def has_test(self) -> bool:
        """Whether there are test texts."""
        return self.data.test is not None

    def problems(self) -> list[str]:
        """Rules between tables that this recipe breaks; each table answers for its own."""
        found = super().problems()
        if self.network == "transformer":
            if self.model.family == "encoder_decoder":
                found.append(
                    "task classification needs a model of one stack; seen: model.family "
                    f"{self.model.family}; mend: set model.family = 'encoder'"
                )
            if self.model.head.kind != "none":
                found.append(
                    "a classifier's model has no head over the vocabulary; seen: model.head.kind "
                    f"{self.model.head.kind}; mend: set model.head.kind = 'none'"
                )
            reach = self.model.max_positions()
            if reach is not None and self.data.max_length > reach:
                found.append(
                    "learned positions must reach the longest row; seen: data.max_length "
                    f"{self.data.max_length}, model.position.max_length {reach}; mend: lower the "
                    "first or raise the second"
                )
        if self.lora.rank and self.network == "bilstm":
            found.append("lora.rank is for Transformers; seen: network = 'bilstm'; mend: rank = 0")
        if self.lora.rank and self.adaptation != AdaptationConfig():
            found.append(
                "lora.rank freezes the network by itself; seen: [adaptation] beside it; mend: "
                "remove one of the two"
            )
        if self.class_weights == "balanced" and self.objective.r_drop:
            found.append(
                "class_weights = 'balanced' cannot stand beside objective.r_drop; seen: "
                f"{self.objective.r_drop}; mend: set one of the two to none"
            )
        if self.class_weights == "balanced" and self.data.labels_are == "multi":
            found.append(
                "class_weights = 'balanced' is for one label a text or word; seen: "
                "data.labels_are = 'multi'; mend: class_weights = 'none'"
            )
        return found

    def unused(self) -> list[str]:
        """Keys of one table that another table leaves without effect."""
        found = super().unused()
        if self.network == "transformer" and self.bilstm != BiLSTMConfig():
            found.append("[bilstm] has no effect: network = 'transformer'")
        if self.data.labels_are == "words" and self.classifier.dense:
            found.append("classifier.dense has no effect: words are labelled one by one")
        if self.data.labels_are != "multi" and (
            self.evaluation.threshold != ClassificationConfig.threshold
        ):
            found.append("evaluation.threshold has no effect: a text has one label")
        return found
