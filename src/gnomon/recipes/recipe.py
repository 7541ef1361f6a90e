"""The recipe: the whole typed description of a run, a tree of the rooms' own config dataclasses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from gnomon.decoding import SearchConfig
from gnomon.evaluation import EvaluationConfig
from gnomon.model import TransformerConfig
from gnomon.recipes.doctor import DoctorConfig
from gnomon.text import AugmentationConfig, CleaningConfig, DataConfig, TokenizerConfig
from gnomon.training import (
    AveragingConfig,
    ObjectiveConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainingConfig,
)

LOWER_IS_BETTER = ("nll", "ter")

SCHEMA_VERSION = 3
"""Raised when a key changes its meaning; `load.migrate` brings older recipes forward."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to train, on what, how, and how to judge it. Each table belongs to one room."""

    schema_version: int = SCHEMA_VERSION
    name: str = "run"  # the run goes to runs/NAME
    description: str = ""
    task: Literal["translation"] = "translation"
    data: DataConfig = field(default_factory=DataConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: TransformerConfig = field(default_factory=TransformerConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    averaging: AveragingConfig = field(default_factory=AveragingConfig)
    decoding: SearchConfig = field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    doctor: DoctorConfig = field(default_factory=DoctorConfig)

    def problems(self) -> list[str]:
        """Rules between tables that this recipe breaks; each table answers for its own."""
        found = []
        if not self.name or "/" in self.name or self.name.startswith("."):
            found.append(
                f"name must be a plain folder name; seen: {self.name!r}; mend: letters, - _"
            )
        if self.task == "translation" and self.model.family != "encoder_decoder":
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
        rope = self.model.position.rope
        if self.model.position.kind == "rope" and rope.scaling == "dynamic_ntk":
            found.append(
                "model.position.rope.scaling must not depend on the longest text of a batch, or "
                "a translation would depend on its neighbours; seen: dynamic_ntk; mend: ntk or yarn"
            )
        reach = self.model.max_positions()
        if reach is not None and self.data.max_length + 1 > reach:
            found.append(
                "learned positions must reach the longest training text, end of sentence included; "
                f"seen: data.max_length {self.data.max_length}, model.position.max_length {reach}; "
                "mend: lower the first or raise the second"
            )
        measured = ("nll", *self.evaluation.metrics)
        if self.training.best_metric not in measured:
            found.append(
                f"training.best_metric must be one that validation measures; seen: "
                f"{self.training.best_metric!r}; mend: one of {', '.join(measured)}"
            )
        elif (self.training.best_metric in LOWER_IS_BETTER) != (self.training.best_mode == "min"):
            found.append(
                "training.best_mode must be 'min' for nll and ter, 'max' for other scores; seen: "
                f"{self.training.best_mode!r} for {self.training.best_metric}"
            )
        return found

    def unused(self) -> list[str]:
        """Keys of one table that another table leaves without effect."""
        default = TransformerConfig()
        sizes = ("vocab_size", "target_vocab_size")
        found = [
            f"model.{key} has no effect: the tokenizer that is learned from the text decides it"
            for key in sizes
            if getattr(self.model, key) != getattr(default, key)
        ]
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
        if self.objective.r_drop and not self.model.draws_in_training():
            found.append(
                "objective.r_drop has no effect but its price without dropout: both passes are "
                "the same; mend: set model.dropout"
            )
        return found


def tables(config: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every config dataclass inside `config`, itself first, with its dotted path."""
    yield path, config
    for item in fields(config):
        value = getattr(config, item.name)
        if is_dataclass(value):
            yield from tables(value, f"{path}.{item.name}" if path else item.name)
