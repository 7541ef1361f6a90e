"""The factor on the loss that keeps small gradients above zero in fp16.

fp16 has nothing below 6e-8, and gradients often are (Micikevicius et al. 2018, arXiv 1710.03740,
section 3.2): the loss is multiplied before the backward pass and the gradients are divided after
it, both by a power of two, which rounds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

_FIRST = 2.0**16
_LARGEST = 2.0**24
_GROWS_AFTER = 2000  # steps without overflow


@dataclass
class LossScale:
    """Grows while all goes well, and is halved when gradients overflow."""

    value: float = _FIRST
    steps_since_change: int = 0

    def went_well(self) -> None:
        """A step was taken."""
        self.steps_since_change += 1
        if self.steps_since_change >= _GROWS_AFTER and self.value < _LARGEST:
            self.value, self.steps_since_change = 2 * self.value, 0

    def overflowed(self) -> bool:
        """Gradients were not finite; whether there is a smaller scale to try."""
        self.value, self.steps_since_change = self.value / 2, 0
        return self.value >= 1.0
