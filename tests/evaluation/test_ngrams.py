"""n-grams are what the formulas say, counted here one by one, and a probability."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from gnomon.errors import DataError
from gnomon.evaluation.ngrams import NGrams

V, END = 6, 5
Gram = tuple[int, ...]


def _text(seed: int, length: int) -> list[int]:
    """Numbers of which each depends on the two before it."""
    rng = random.Random(seed)
    found = [0, 1]
    while len(found) < length:
        likely = (found[-1] + 2 * found[-2]) % 5
        found.append(likely if rng.random() < 0.6 else rng.randrange(5))
    return found


class Plain:
    """Chen and Goodman's equations, read off as they stand."""

    def __init__(self, stream: list[int], order: int) -> None:
        self.seen: list[Counter[Gram]] = []
        for length in range(1, order + 1):
            grams = [tuple(stream[i : i + length]) for i in range(len(stream) - length + 1)]
            self.seen.append(Counter(grams))
        for length in range(order - 1):
            self.seen[length] = Counter(gram[1:] for gram in self.seen[length + 1])

    def discount(self, length: int, count: int) -> float:
        n = Counter(self.seen[length - 1].values())
        if not (n[1] and n[2] and n[3] and n[4]):
            return 0.5
        share = n[1] / (n[1] + 2 * n[2])
        if count == 1:
            return min(max(1 - 2 * share * n[2] / n[1], 0), 1)
        if count == 2:
            return min(max(2 - 3 * share * n[3] / n[2], 0), 2)
        return min(max(3 - 4 * share * n[4] / n[3], 0), 3)

    def probability(self, history: Gram, token: int) -> float:
        length = len(history) + 1
        shorter = self.probability(history[1:], token) if history else 1 / V
        after = {t: c for t in range(V) if (c := self.seen[length - 1][(*history, t)])}
        total = sum(after.values())
        if not total:
            return shorter
        left = sum(self.discount(length, count) for count in after.values())
        own = after[token] - self.discount(length, after[token]) if token in after else 0.0
        return (own + left * shorter) / total


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [12, 900])
def test_it_is_what_the_equations_give(order: int, length: int) -> None:
    documents = [_text(0, length), _text(1, length // 2)]
    held_out = [_text(2, 40), [], _text(3, 7)]
    stream = [END, *documents[0], END, *documents[1], END]
    plain = Plain(stream, order)
    asked = [END, *held_out[0], END, END, *held_out[2], END]
    expected = -sum(
        math.log(plain.probability(tuple(asked[max(0, i - order + 1) : i]), asked[i]))
        for i in range(1, len(asked))
    )
    nll, count = NGrams(documents, V, END, order).nll(held_out)
    assert count == len(asked) - 1
    assert nll == pytest.approx(expected, rel=1e-12)


def test_it_is_a_probability_after_any_history() -> None:
    model = NGrams([_text(0, 500)], V, END, 4)
    for seed in range(30):
        history = np.random.default_rng(seed).integers(0, V, 6).tolist()
        last = [model._probabilities(np.array([END, *history, t]))[-1] for t in range(V)]
        assert math.fsum(last) == pytest.approx(1, abs=1e-12)
        assert min(last) > 0


def test_longer_histories_help_where_text_depends_on_them() -> None:
    train, held_out = [_text(0, 4000)], [_text(9, 1000)]
    short, long = (NGrams(train, V, END, order).nll(held_out)[0] for order in (1, 3))
    assert long < 0.8 * short


def test_nothing_to_count_is_told() -> None:
    with pytest.raises(DataError, match="n-grams are counted in documents"):
        NGrams([], V, END, 3)
