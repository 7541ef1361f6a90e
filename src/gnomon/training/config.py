"""The [training] table of a recipe: how long, how often, in which precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gnomon.model.unpadded import Unpadding
from gnomon.training.precision import PrecisionName


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long a training runs and what it writes on the way; "steps" are optimizer steps."""

    # Training ends after this many steps; schedules that fall reach their end here.
    max_steps: int = 100_000
    # … or after this many passes over the data, if that comes first.
    max_epochs: int | None = None
    # … or after this much wall time, for machines of unknown speed. The schedule still goes by
    # steps, so every step is the same with or without it; only where training ends is not.
    max_minutes: float | None = None
    # Padded source and target tokens per micro-batch.
    tokens_per_batch: int = 4096
    # Micro-batches per step; their gradients sum to that of one batch of all their tokens.
    accumulate: int = 1
    # Number format of matrix products: auto takes bf16 where the hardware has it, fp16 on GPUs that
    # have nothing else; bf16-master: of all that a pass computes; fp8: on GPUs that have it. A step
    # that is not finite in a short format is taken again in a wider one.
    precision: PrecisionName = "auto"
    # Whether layers are compiled (torch.compile): no gain on CPUs, a minute at the start.
    compile: bool = False
    # Whether padding is left out of projections, feed-forward, norms and dropout, which then see
    # real tokens alone: auto does on a CPU where a batch has enough of it, and not in compiled
    # layers.
    unpadded: Unpadding = "auto"
    # auto takes the GPU where there is one.
    device: Literal["auto", "cpu", "cuda"] = "auto"
    # CPU threads; None leaves torch's choice. Results are bitwise equal for equal counts only.
    threads: int | None = None
    # Seeds weights, dropout and the order of the data.
    seed: int = 1
    # Steps between log lines, validations and checkpoints.
    log_every: int = 50
    validate_every: int = 1000
    checkpoint_every: int = 1000
    # Steps between the doctor's looks at gradients, updates and attention; 0 looks at nothing.
    monitor_every: int = 50
    # Newest checkpoints kept, beside that of the best validation.
    keep_last: int = 3
    # The validation metric that says which checkpoint is best, and its better direction.
    best_metric: str = "nll"
    best_mode: Literal["min", "max"] = "min"
    # Stop after this many validations in a row without a new best; None never does.
    patience: int | None = None

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        counts = (
            "max_steps",
            "max_epochs",
            "tokens_per_batch",
            "accumulate",
            "threads",
            "log_every",
            "validate_every",
            "checkpoint_every",
            "keep_last",
            "patience",
        )
        found = [
            f"training.{name} must be at least 1, seen {value}"
            for name in counts
            if (value := getattr(self, name)) is not None and value < 1
        ]
        largest = {"max_steps": 10**12, "accumulate": 10**6, "threads": 1024}
        found += [
            f"training.{name} must be at most {most:,}, seen {value}"
            for name, most in largest.items()
            if (value := getattr(self, name)) is not None and value > most
        ]
        if not 0 <= self.seed < 2**63:
            found.append(f"training.seed must be at least 0 and below 2^63, seen {self.seed}")
        if self.compile and self.unpadded == "always":
            found.append(
                'training.unpadded "always" does not go with training.compile, whose layers take '
                'rows; mend: "auto", or leave training.compile out'
            )
        if self.monitor_every < 0:
            found.append(f"training.monitor_every must be at least 0, seen {self.monitor_every}")
        if self.max_minutes is not None and not self.max_minutes > 0:
            found.append(f"training.max_minutes must be above 0, seen {self.max_minutes}")
        return found
