"""A loss that jumps above what it was, and stays there for several steps."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import ClassVar

from gnomon.doctor.monitors.monitor import Monitor, Seen, suspicion

TITLE = "The loss does not jump"
FAULT = "The loss jumps"
CAUSE = (
    "Updates overshoot: the learning rate is too high at this point (a warm-up too short, an Adam "
    "memory too long for rare gradients), or this part of the data is of another kind."
)
MEND = (
    "Lower the peak learning rate or lengthen the warm-up; set beta2 to 0.95 … 0.98 and clip at "
    "norm 1; look at the lines of these batches."
)
REFERENCE = "Molybog et al. 2023, A Theory on Adam Instability"
_BEFORE, _NOW = 40, 8


class LossSpike(Monitor):
    """Compares the last 8 steps with the 40 before them, by medians.

    A single hard batch is no spike. The memory does not outlive the process: for 48 steps after a
    training was continued, none is seen.

    Args:
        every: steps between judgements.
    """

    kind: ClassVar[str] = "spike"
    num_needed: ClassVar[int] = _BEFORE + _NOW

    def __init__(self, *, every: int = 4) -> None:
        self._every = every
        self._losses: deque[float] = deque(maxlen=_BEFORE + _NOW)
        self._since = 0

    def on_loss(self, step: int, loss: float, learning_rate: float) -> Seen | None:
        """Note the loss; now and then, judge."""
        self._losses.append(loss)
        if step % self._every or len(self._losses) < self.num_needed:
            return None
        losses = list(self._losses)
        before, now = losses[:-_NOW], median(losses[-_NOW:])
        middle = median(before)
        spread = 1.4826 * median(abs(each - middle) for each in before)
        # A falling loss has a wide spread of its own; the rise must be large by itself, too.
        if now <= middle + max(4 * spread, 0.15 * abs(middle), 0.05):
            self._since = 0
            return None
        if self._since:
            return None
        self._since = step
        finding = suspicion(
            "loss-spike",
            FAULT,
            f"the loss rose from {middle:.3f} (median of {len(before)} steps, spread {spread:.3f}) "
            f"to {now:.3f} (median of the last {_NOW}) at step {step}, learning rate "
            f"{learning_rate:.1e}",
            cause=CAUSE,
            mend=MEND,
            reference=REFERENCE,
            before=middle,
            after=now,
            step=step,
        )
        return Seen({"before": middle, "after": now}, finding)
