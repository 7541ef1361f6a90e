"""The [memory] table of a recipe: what training keeps between forward and backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """How training saves memory, and what it pays.

    With `recompute` the gradients are the same bits; with 8-bit activations they are not.
    """

    # What is computed again in the backward pass instead of kept. selective: what is cheap for its
    # size (norms, activations, casts, the first feed-forward product, keys and values of the
    # encoder's output); full: whole layers, of which only the input is kept
    recompute: Literal["none", "selective", "full"] = "none"
    # full: every n-th layer is computed again, counted from the first
    every: int = 1
    # kept as they are; or in 8 bits, blockwise scaled; or in the computer's memory while the GPU
    # works on
    activations: Literal["kept", "int8", "host"] = "kept"

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        found = []
        if self.every < 1:
            found.append(f"memory.every must be at least 1, seen {self.every}")
        if self.recompute == "full" and self.activations != "kept":
            found.append(
                f'memory.activations = "{self.activations}" keeps what memory.recompute = "full" '
                'does not keep: choose one, or recompute = "selective"'
            )
        return found

    def unused(self) -> list[str]:
        """Keys that the others leave without effect."""
        if self.every != 1 and self.recompute != "full":
            return [f'memory.every has no effect with memory.recompute = "{self.recompute}"']
        return []
