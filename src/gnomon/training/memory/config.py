"""The [memory] table of a recipe: what training keeps between forward and backward pass."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_UNITS = {"GIB": 2**30, "MIB": 2**20, "GB": 10**9, "MB": 10**6}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(GiB|MiB|GB|MB)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """How training saves memory, and what it pays.

    With `recompute` the gradients are the same bits; with 8-bit activations they are not.
    """

    # What is computed again in the backward pass instead of kept. selective: what is cheap for its
    # size (norms, activations, casts, the first feed-forward product, keys and values of the
    # encoder's output); full: whole layers, of which only the input is kept; budget: as few whole
    # layers as it takes to keep no more than `budget`
    recompute: Literal["none", "selective", "full", "budget"] = "none"
    # full: every n-th layer is computed again, counted from the first
    every: int = 1
    # budget: activations of a batch, as "2 GiB", "800 MiB" (or GB and MB, of 1000)
    budget: str | None = None
    # kept as they are; or in 8 bits, blockwise scaled; or in the computer's memory while the GPU
    # works on
    activations: Literal["kept", "int8", "host"] = "kept"

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        found = []
        if self.every < 1:
            found.append(f"memory.every must be at least 1, seen {self.every}")
        if self.recompute in ("full", "budget") and self.activations != "kept":
            found.append(
                f'memory.activations = "{self.activations}" keeps what memory.recompute = '
                f'"{self.recompute}" does not keep: choose one, or recompute = "selective"'
            )
        needed = self.recompute == "budget" or self.budget is not None
        if needed and not _SIZE.fullmatch(self.budget or ""):
            found.append(
                f'memory.budget must be a size such as "2 GiB" or "800 MiB", seen {self.budget!r}'
            )
        return found

    @property
    def budget_bytes(self) -> int:
        """The budget as a number; there must be one."""
        match = None if self.budget is None else _SIZE.fullmatch(self.budget)
        assert match is not None, "a recipe without is refused"
        return int(float(match[1]) * _UNITS[match[2].upper()])

    def unused(self) -> list[str]:
        """Keys that the others leave without effect."""
        keys = {"every": (1, "full"), "budget": (None, "budget")}
        return [
            f'memory.{key} has no effect with memory.recompute = "{self.recompute}"'
            for key, (default, needed) in keys.items()
            if getattr(self, key) != default and self.recompute != needed
        ]
