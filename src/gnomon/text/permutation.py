"""Random orders of any size that are computed place by place instead of being kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_NUM_ROUNDS = 6


class KeyedPermutation:
    """A permutation of 0 … count-1, a function of its key alone.

    Numbers are written as `left · width + right` and each half is shifted, in turn, by a hash of
    the other (an unbalanced Feistel network, Black and Rogaway 2002, section 5). Each shift can be
    undone, so no two numbers meet. Where the two halves span a little more than `count`, a number
    that lands beyond it is sent on until it lands within (cycle walking, section 3 there).

    Args:
        count: how many numbers, from 1.
        key: whole numbers from 0; each gives another order.
    """

    def __init__(self, count: int, key: Sequence[int]) -> None:
        assert count > 0, "there is something to order"
        self.count = count
        self._height = math.isqrt(count - 1) + 1
        self._width = -(-count // self._height)
        state = np.random.SeedSequence(list(key)).generate_state(_NUM_ROUNDS, np.uint64)
        self._keys: list[np.uint64] = list(state)

    def __call__(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """What stands at `places`, each from 0 to count-1, in any order and number."""
        found = self._shuffled(places)
        while len(beyond := np.flatnonzero(found >= self.count)):
            found[beyond] = self._shuffled(found[beyond])
        return found

    def _shuffled(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        left, right = np.divmod(numbers, self._width)
        for number, key in enumerate(self._keys):
            if number % 2:
                right = (right + _hashed(left, key, self._width)) % self._width
            else:
                left = (left + _hashed(right, key, self._height)) % self._height
        shuffled: NDArray[np.int64] = left * self._width + right
        return shuffled


def _hashed(values: NDArray[np.int64], key: np.uint64, span: int) -> NDArray[np.int64]:
    """Hash to 0 … span-1 (the finaliser of SplitMix64, Steele et al. 2014)."""
    bits = values.astype(np.uint64) + key
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((bits ^ (bits >> np.uint64(31))) % np.uint64(span)).astype(np.int64)
