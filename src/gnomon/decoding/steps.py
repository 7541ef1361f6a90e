"""A search that is watched step by step: what streams its tokens, or knows when to stop."""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Step:
    """What one step of a search chose.

    Attributes:
        places: int64 [B], of the sentences that are still in the search.
        tokens: int64 [B, n], the newest token of each output.
        log_probs: fp32 [B, n], the model's own of each output so far.
    """

    places: Tensor
    tokens: Tensor
    log_probs: Tensor


# Takes the places of sentences that go no further, as if their length limit had come.
Steps = Generator[Step, Collection[int] | None, Result]


def exhaust(steps: Steps[Result]) -> Result:
    """The result of a search that nobody watches."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
