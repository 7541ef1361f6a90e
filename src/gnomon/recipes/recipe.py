"""The recipe: the whole typed description of a run, a tree of the rooms' own config dataclasses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from gnomon.model import TransformerConfig
from gnomon.recipes.doctor import DoctorConfig
from gnomon.training import (
    AveragingConfig,
    DistributedConfig,
    MemoryConfig,
    ObjectiveConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainingConfig,
)

LOWER_IS_BETTER = (
    *("nll", "ter", "calibration_error"),
    *("perplexity", "bits_per_character", "bits_per_byte"),
)

SCHEMA_VERSION = 3
"""Raised when a key changes its meaning; `load.migrate` brings older recipes forward."""


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """What holds whatever is trained. Each task's own recipe adds its text and how it is judged.

    Each table belongs to one room.
    """

    schema_version: int = SCHEMA_VERSION
    name: str = "run"  # the run goes to runs/NAME
    description: str = ""
    task: str
    model: TransformerConfig = field(default_factory=TransformerConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    averaging: AveragingConfig = field(default_factory=AveragingConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)
    doctor: DoctorConfig = field(default_factory=DoctorConfig)

    def measured(self) -> tuple[str, ...]:
        """What a validation measures, by the names that `training.best_metric` may take."""
        return ("nll",)

    @abstractmethod
    def longest_example(self) -> int:
        """Tokens that one example may have at most, as `training.tokens_per_batch` counts them."""

    @abstractmethod
    def has_test(self) -> bool:
        """Whether the recipe names text to judge the finished model on."""

    def problems(self) -> list[str]:
        """Rules between tables that this recipe breaks; each table answers for its own."""
        found = []
        if not self.name or "/" in self.name or self.name.startswith("."):
            found.append(
                f"name must be a plain folder name; seen: {self.name!r}; mend: letters, - _"
            )
        if self.model.turns_by_length():
            found.append(
                "model.position.rope.scaling must not depend on the longest text of a batch, or a "
                "text's result would depend on its neighbours; seen: dynamic_ntk; mend: ntk or yarn"
            )
        if self.training.best_metric not in self.measured():
            found.append(
                f"training.best_metric must be one that validation measures; seen: "
                f"{self.training.best_metric!r}; mend: one of {', '.join(self.measured())}"
            )
        elif (self.training.best_metric in LOWER_IS_BETTER) != (self.training.best_mode == "min"):
            lower = [name for name in self.measured() if name in LOWER_IS_BETTER]
            found.append(
                f"training.best_mode must be 'min' for {' and '.join(lower)}, 'max' for other "
                f"scores; seen: {self.training.best_mode!r} for {self.training.best_metric}"
            )
        if self.training.compile and self.memory != MemoryConfig():
            found.append(
                "training.compile does not go with [memory]: compiled layers decide themselves "
                "what they keep; mend: leave one of the two out"
            )
        if self.optimizer.averages:
            found += self._problems_of_averaging_optimizer()
        return found

    def _problems_of_averaging_optimizer(self) -> list[str]:
        name, found = self.optimizer.name, []
        if self.schedule.kind != "constant":
            found.append(
                f'optimizer.name "{name}" wants a rate that does not fall, its mean does that '
                f'work; seen: schedule.kind "{self.schedule.kind}"; mend: "constant" (with '
                "schedule.peak and schedule.warmup_steps)"
            )
        if self.averaging.kind != "none":
            found.append(
                f'optimizer.name "{name}" averages the weights itself; seen: averaging.kind '
                f'"{self.averaging.kind}"; mend: "none"'
            )
        return found

    def unused(self) -> list[str]:
        """Keys of one table that another table leaves without effect."""
        default = TransformerConfig()
        found = [
            f"model.{key} has no effect: the tokenizer that is learned from the text decides it"
            for key in ("vocab_size", "target_vocab_size")
            if getattr(self.model, key) != getattr(default, key)
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
