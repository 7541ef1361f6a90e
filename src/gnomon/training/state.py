"""Where a training stands: everything but weights, optimizer tensors and generators."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from gnomon.training.loss_scale import LossScale
from gnomon.training.precision import PrecisionName


@dataclass
class IntervalSums:
    """Sums since the last log line; saved, so that a continued run logs the same figures."""

    loss: float = 0.0
    nll: float = 0.0
    num_tokens: int = 0


@dataclass
class Best:
    """The best validation so far."""

    metric: str
    value: float
    step: int


@dataclass
class TrainingState:
    """Counters of a training after `step` optimizer steps; turns to JSON and back exactly."""

    step: int = 0
    epoch: int = 0  # from 0
    part: int = 0  # of the epoch, from 0
    batch: int = 0  # micro-batches of this part already used
    num_tokens: int = 0  # target tokens trained on since step 0
    seconds: float = 0.0  # wall time spent in `fit`, over all continuations
    validated_step: int = 0
    num_validations_without_gain: int = 0
    best: Best | None = None
    ranked: list[Best] = field(default_factory=list)  # as many of the best as averaging asks for
    interval: IntervalSums = field(default_factory=IntervalSums)
    # What training.precision "auto" was settled to at step 0, or what a step that failed in a
    # shorter format went on in: a continued run keeps to it.
    precision: PrecisionName | None = None
    loss_scale: LossScale = field(default_factory=LossScale)  # of fp16
    # Why training is over ("max_steps", "early_stopping" …); None while it is not.
    finished: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values; floats survive because JSON writes their shortest exact form."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TrainingState:
        """The state that `to_json` described."""
        best = values["best"]
        ranked = values.get("ranked", [] if best is None else [best])
        return cls(
            **{
                **values,
                "best": None if best is None else Best(**best),
                "ranked": [Best(**entry) for entry in ranked],
                "interval": IntervalSums(**values["interval"]),
                "loss_scale": LossScale(**values.get("loss_scale", {})),
            }
        )
