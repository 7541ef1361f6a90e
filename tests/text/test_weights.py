"""A weight is exactly how often pairs are seen, evenly, whatever the epoch one continues from."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gnomon.errors import DataError
from gnomon.text.weights import Weights


def shown(weights, number):
    return weights.examples(number, np.arange(weights.size(number)))


def counts(weights, size, epochs):
    total = np.zeros(size, int)
    for number in epochs:
        total += np.bincount(shown(weights, number), minlength=size)
    return total


def test_twice_and_half():
    weights = Weights([2.0, 0.5, 1.0], [10, 30, 35], seed=3)
    for number in range(4):
        seen = np.bincount(shown(weights, number), minlength=35)
        assert (seen[:10] == 2).all()
        assert sorted(seen[10:30].tolist()) == [0] * 10 + [1] * 10
        assert (seen[30:] == 1).all()
    both = counts(weights, 35, [0, 1])
    assert (both[10:30] == 1).all()  # the other half comes in the next epoch
    first, third = (set(shown(weights, number)) & set(range(10, 30)) for number in (0, 2))
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
        return shown(Weights([0.3, 1.0], [100, 110], seed), number).tolist()

    assert epoch(5) == epoch(5)
    assert epoch(5) != epoch(6)
    assert epoch(5) != epoch(5, seed=1)


@pytest.mark.parametrize("weights", [[1e-9, 1e-9], [0.06, 0.03]])
def test_an_epoch_without_a_pair_is_refused(weights):
    with pytest.raises(DataError, match="at least one pair") as caught:
        Weights(weights, [10, 40], 0)
    assert "x 30 pairs" in str(caught.value)
    assert Weights([0.1, 0.01], [10, 40], 0).size(0) == 1


def test_places_may_be_asked_for_in_any_order():
    weights = Weights([0.3, 1.0, 2.5], [100, 110, 150], seed=4)
    whole = shown(weights, 7)
    places = np.random.default_rng(0).integers(0, len(whole), 500)
    assert np.array_equal(weights.examples(7, places), whole[places])


def test_weights_of_one_are_the_examples_as_they_stand():
    assert shown(Weights([1.0, 1.0], [10, 15], seed=4), 3).tolist() == list(range(15))
