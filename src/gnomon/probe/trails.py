"""What is known of each living tensor: origin, scaling, and what it is part of."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from gnomon.probe.kept import Kept
    from gnomon.probe.softmax import Scores, SoftmaxEvidence, Weights


@dataclass(frozen=True)
class Trail:
    """Facts about one tensor that later operations inherit or end."""

    # embeddings and inputs of the model that it was computed from
    origins: frozenset[int] = frozenset()
    # the scalar it was multiplied with since an operation that is not linear in it
    factor: float = 1.0
    # how often `expand` or `repeat_interleave` repeats each head of keys
    repeats: int = 1
    # [batch, heads], where a view merged both into one axis
    merged: tuple[int, int] | None = None
    # scores on their way from query · key to softmax
    scores: Scores | None = None
    # weights on their way from softmax to the values
    weights: Weights | None = None
    # for softmax by hand: "maximum" of the scores, their "exp", the "sum" of that
    part: str | None = None
    # softmax by hand: its input, once the exponential was taken
    exponent: Kept | None = None
    # … and the axis of its sum
    axis: int | None = None
    # drawn at random, or computed from such draws alone
    random: bool = False
    # the attention whose output it is
    output: SoftmaxEvidence | None = None


NOTHING = Trail()


class Trails:
    """Trails by tensor; forgotten when the tensor dies, and holding no tensor alive."""

    def __init__(self) -> None:
        self._trails: dict[int, tuple[weakref.ref[Tensor], Trail]] = {}

    def __getitem__(self, tensor: Tensor) -> Trail:
        entry = self._trails.get(id(tensor))
        return NOTHING if entry is None else entry[1]

    def __setitem__(self, tensor: Tensor, trail: Trail) -> None:
        key = id(tensor)
        entry = self._trails.get(key)
        if entry is None and trail is NOTHING:
            return
        # The reference is never followed, as that could wake a tensor only autograd still holds;
        # it only tells of the end. An id is not given again before that.
        ref = weakref.ref(tensor, lambda _: self._forget(key)) if entry is None else entry[0]
        self._trails[key] = (ref, trail)

    def _forget(self, key: int) -> None:
        self._trails.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._trails.clear()
