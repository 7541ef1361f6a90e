"""A weight is exactly how often pairs are seen, evenly, whatever the epoch one continues from."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gnomon.errors import DataError
from gnomon.text.weights import Weights


def counts(weights, size, epochs):
    total = np.zeros(size, int)
    for number in epochs:
        total += np.bincount(weights.epoch(number), minlength=size)
    return total


def test_twice_and_half():
    weights = Weights([2.0, 0.5, 1.0], [10, 30, 35], seed=3)
    for number in range(4):
        seen = np.bincount(weights.epoch(number), minlength=35)
        assert (seen[:10] == 2).all()
        assert sorted(seen[10:30].tolist()) == [0] * 10 + [1] * 10
        assert (seen[30:] == 1).all()
    both = counts(weights, 35, [0, 1])
    assert (both[10:30] == 1).all()  # the other half comes in the next epoch
    first, third = (set(weights.epoch(number)) & set(range(10, 30)) for number in (0, 2))
    assert first != third  # and the halves are not always the same


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 400).map(lambda n: n / 100)),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 12),
    st.integers(0, 3),
)
def test_every_pair_is_seen_as_often_as_any_other(sources, num_epochs, seed):
    assume(any(count * round(100 * weight) >= 100 for count, weight in sources))
    bounds = np.cumsum([count for count, _ in sources]).tolist()
    weights = Weights([weight for _, weight in sources], bounds, seed)
    seen = counts(weights, bounds[-1], range(num_epochs))
    for start, stop, (count, weight) in zip([0, *bounds], bounds, sources, strict=False):
        own = seen[start:stop]
        # In hundredths, so that the expectation is exact.
        hundredths = round(weight * 100) * num_epochs
        assert own.sum() == hundredths * count // 100
        if count:
            assert own.min() >= hundredths // 100
            assert own.max() <= -(-hundredths // 100)


def test_a_function_of_seed_and_epoch():
    def epoch(number, seed=0):
        return Weights([0.3, 1.0], [100, 110], seed).epoch(number).tolist()

    assert epoch(5) == epoch(5)
    assert epoch(5) != epoch(6)
    assert epoch(5) != epoch(5, seed=1)


@pytest.mark.parametrize(("weights", "even"), [([1.0, 1.0], True), ([1.0, 1.5], False)])
def test_even(weights, even):
    assert Weights(weights, [1, 2], 0).even is even


@pytest.mark.parametrize("weights", [[1e-9, 1e-9], [0.06, 0.03]])
def test_an_epoch_without_a_pair_is_refused(weights):
    with pytest.raises(DataError, match="at least one pair") as caught:
        Weights(weights, [10, 40], 0)
    assert "x 30 pairs" in str(caught.value)
    assert len(Weights([0.1, 0.01], [10, 40], 0).epoch(0)) == 1
