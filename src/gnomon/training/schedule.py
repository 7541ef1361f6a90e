"""Learning rate as a pure function of the step, so there is nothing to save and restore."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

ScheduleKind = Literal["noam", "inverse_sqrt", "cosine", "linear", "constant", "wsd"]

_FIELDS_OF_KIND: dict[str, set[str]] = {
    "noam": {"factor", "warmup_steps"},
    "inverse_sqrt": {"peak", "warmup_steps"},
    "cosine": {"peak", "warmup_steps", "final_ratio"},
    "linear": {"peak", "warmup_steps", "final_ratio"},
    "constant": {"peak", "warmup_steps"},
    "wsd": {"peak", "warmup_steps", "final_ratio", "decay_share"},
}


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """How the learning rate rises and falls; s is the step, from 1, w the warm-up steps.

    - noam: factor · d_model^-½ · min(s^-½, s · w^-1.5) (Vaswani et al. 2017, eq. 3).
    - inverse_sqrt: peak · min(s/w, √(w/s)): noam with its peak named.
    - cosine: warm-up, then half a cosine from peak to final_ratio · peak at the last step
      (Loshchilov & Hutter 2017, eq. 5, one cycle).
    - linear: warm-up, then a straight line from peak to final_ratio · peak at the last step.
    - constant: warm-up, then peak.
    - wsd: warm-up, peak, and over the last decay_share of the steps a straight line to
      final_ratio · peak (Hu et al. 2024, §4; the line instead of their exponential).

    Warm-up is peak · s/w in every kind.
    """

    kind: ScheduleKind = "noam"
    # Highest learning rate; of every kind but noam.
    peak: float = 5e-4
    # Multiplies the 2017 formula; of noam only.
    factor: float = 1.0
    # Steps until the highest learning rate.
    warmup_steps: int = 4000
    # Learning rate at the last step as a share of the peak.
    final_ratio: float = 0.0
    # Share of all steps, at their end, in which wsd falls.
    decay_share: float = 0.2

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        found = []
        if not 0 < self.peak < math.inf:
            found.append(f"schedule.peak must be a number above 0, seen {self.peak}")
        if not 0 < self.factor < math.inf:
            found.append(f"schedule.factor must be a number above 0, seen {self.factor}")
        least = 1 if self.kind in ("noam", "inverse_sqrt") else 0
        if self.warmup_steps < least:
            found.append(
                f"schedule.warmup_steps must be at least {least} for {self.kind}, "
                f"seen {self.warmup_steps}"
            )
        if not 0 <= self.final_ratio <= 1:
            found.append(
                f"schedule.final_ratio must lie between 0 and 1, seen {self.final_ratio}; "
                "it is a share of the peak, not a learning rate"
            )
        if not 0 < self.decay_share <= 1:
            found.append(
                f"schedule.decay_share must be above 0 and at most 1, seen {self.decay_share}"
            )
        return found

    def unused(self) -> list[str]:
        """Fields set away from their default that this kind never reads, one sentence each."""
        read = _FIELDS_OF_KIND[self.kind] | {"kind"}
        return [
            f"schedule.{field.name} = {getattr(self, field.name)} has no effect with "
            f'schedule.kind = "{self.kind}"'
            for field in fields(self)
            if field.name not in read and getattr(self, field.name) != field.default
        ]

    def build(self, *, d_model: int, max_steps: int) -> Schedule:
        """The schedule of a model of width `d_model` trained for `max_steps` steps."""
        return Schedule(config=self, d_model=d_model, max_steps=max_steps)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Calling it with a step (from 1) gives that step's learning rate."""

    config: ScheduleConfig
    d_model: int
    max_steps: int

    def __call__(self, step: int) -> float:
        """Learning rate of `step`; past `max_steps` it stays at its last value."""
        assert step >= 1, "steps are counted from 1"
        config, warmup = self.config, self.config.warmup_steps
        if config.kind == "noam":
            rise, fall = step * math.pow(warmup, -1.5), math.pow(step, -0.5)
            return config.factor * math.pow(self.d_model, -0.5) * min(rise, fall)
        if step < warmup:
            return config.peak * step / warmup
        return config.peak * self._share_of_peak(step)

    def _share_of_peak(self, step: int) -> float:
        """What is left of the peak once warm-up is over, in [0, 1]."""
        config, warmup = self.config, self.config.warmup_steps
        match config.kind:
            case "inverse_sqrt":
                return math.sqrt(warmup / step)
            case "cosine":
                fallen = (1 - math.cos(math.pi * self._progress(step, warmup))) / 2
            case "linear":
                fallen = self._progress(step, warmup)
            case "wsd":
                start = max(warmup, round(self.max_steps * (1 - config.decay_share)))
                fallen = self._progress(step, start)
            case _:
                fallen = 0.0
        return 1 - (1 - config.final_ratio) * fallen

    def _progress(self, step: int, start: int) -> float:
        """How far `step` lies between `start` (0) and the last step (1)."""
        if step <= start:
            return 0.0
        return min(1.0, (step - start) / max(1, self.max_steps - start))
