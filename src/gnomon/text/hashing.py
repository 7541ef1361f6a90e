"""Chance as a pure function: hashes of integers, the same on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def hashed(*values: int | NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of integers, element by element: 64 bits as good as random (splitmix64's mixer)."""
    state = np.zeros(1, np.uint64)
    for value in values:
        state = (state ^ np.asarray(value).astype(np.uint64)) + _GOLDEN
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return state


def happens(chance: NDArray[np.uint64], probability: float) -> NDArray[np.bool_]:
    """Where a hash falls within a probability, 0..1."""
    within: NDArray[np.bool_] = chance >> np.uint64(11) < np.uint64(round(probability * (1 << 53)))
    return within
