"""What is done to scores between the product and softmax, kept so that it can be done again.

The steps are replayed on two stand-ins of the scores' shape: one that starts as 0 and gathers what
is added, one that starts as True and gathers what is hidden; and on an index, which shows where
views and permutations have moved each score. So no kind of mask or layout needs code of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from gnomon.probe import masks

Kind = Literal["layout", "scale", "mask", "other"]


@dataclass
class State:
    """The stand-ins; None where nothing has happened that they would show."""

    # what was added so far, as the scores' dtype has it
    added: Tensor | None
    keep: Tensor | None
    # flat place in the product's output; -1: a column that came from elsewhere
    index: Tensor | None

    def each(self, change: Callable[[Tensor], Tensor]) -> None:
        """Do the same to all stand-ins."""
        self.added = None if self.added is None else change(self.added)
        self.keep = None if self.keep is None else change(self.keep)
        self.index = None if self.index is None else change(self.index)


@dataclass(frozen=True)
class Step:
    """One operation on scores or weights."""

    name: str
    kind: Kind
    replay: Callable[[State], None]


def layout(name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Step:
    """A view, a permutation, a slice: `func(scores, *args)`."""

    def replay(state: State) -> None:
        state.each(lambda x: func(x, *args, **kwargs))

    return Step(name, "layout", replay)


def scale(name: str, factor: float) -> Step:
    """Multiplication by one number."""

    def replay(state: State) -> None:
        if state.added is not None:
            state.added = state.added * factor

    return Step(name, "scale", replay)


def add(name: str, other: Tensor | float, factor: float = 1.0) -> Step:
    """Addition of `factor * other`: mask, bias or a number."""

    def replay(state: State) -> None:
        if state.added is None or state.keep is None:
            return
        if not isinstance(other, Tensor):
            return  # the same for all keys: softmax does not see it
        addend = other * factor if factor != 1 else other
        keep, _ = masks.split(addend)
        if keep is not None:
            state.keep = state.keep & keep
        state.added = state.added + addend

    return Step(name, "mask", replay)


def fill(name: str, where: Tensor, value: Tensor | float) -> Step:
    """Scores set to `value` where `where` is True."""

    def replay(state: State) -> None:
        if state.added is None or state.keep is None:
            return
        values = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
        values = values.to(state.added)
        hidden = where & (values <= masks.HIDES_ALONE)
        state.keep = state.keep & ~hidden
        state.added = torch.where(where, torch.where(hidden, values, 0), state.added)

    return Step(name, "mask", replay)


def assign(name: str, place: Any, value: Tensor | float) -> Step:
    """Scores set to `value` at an index: `scores[place] = value`."""

    def replay(state: State) -> None:
        if state.keep is None:
            return
        where = torch.zeros_like(state.keep)
        where[place] = True
        fill(name, where, value).replay(state)

    return Step(name, "mask", replay)


def join(name: str, tensors: list[Tensor | None], dim: int) -> Step:
    """`cat` with columns that are no scores of this product (attention sinks): None is the scores.

    The new columns get index -1 and are left out of what is shown.
    """

    def replay(state: State) -> None:
        def joined(x: Tensor, rest: float) -> Tensor:
            return torch.cat(
                [x if t is None else torch.full_like(t, rest, dtype=x.dtype) for t in tensors], dim
            )

        state.added = None if state.added is None else joined(state.added, 0.0)
        state.keep = None if state.keep is None else joined(state.keep, True)
        state.index = None if state.index is None else joined(state.index, -1)

    return Step(name, "layout", replay)


def other(name: str) -> Step:
    """An operation that is not retraced (tanh, clamp, dropout): its name is all that is kept."""
    return Step(name, "other", lambda _: None)


def exclude(name: str, mask: Tensor) -> Step:
    """Exponentials of scores multiplied with a mask: 0 hides."""

    def replay(state: State) -> None:
        if state.keep is not None:
            state.keep = state.keep & (mask != 0)

    return Step(name, "mask", replay)


def multiply(name: str, factor: Tensor) -> Step:
    """Multiplication by a tensor that is not one number."""

    def replay(state: State) -> None:
        if state.added is not None:
            state.added = state.added * factor

    return Step(name, "other", replay)
