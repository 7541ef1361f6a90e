"""A keyed permutation is one, mixes, and is the same for the same key."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gnomon.text.permutation import KeyedPermutation


def whole(count, key):
    return KeyedPermutation(count, key)(np.arange(count))


@given(st.integers(1, 3000), st.lists(st.integers(0, 2**40), min_size=1, max_size=3))
def test_every_number_once(count, key):
    assert sorted(whole(count, key).tolist()) == list(range(count))


@given(st.integers(1, 10**12), st.integers(0, 9), st.data())
def test_any_places_in_any_order(count, seed, data):
    places = data.draw(st.lists(st.integers(0, count - 1), unique=True, max_size=50))
    found = KeyedPermutation(count, [seed])(np.array(places, np.int64))
    assert len(set(found.tolist())) == len(places)
    assert all(0 <= number < count for number in found.tolist())
    alone = [int(KeyedPermutation(count, [seed])(np.array([place]))[0]) for place in places[:5]]
    assert alone == found.tolist()[:5]


def test_orders_look_random():
    """As many numbers go on by one, stay or hold their half as chance has it."""
    count, half = 10_000, 5000
    orders = [whole(count, [seed, number]) for seed in range(5) for number in range(8)]
    steps = [int((np.diff(order) == 1).sum()) for order in orders]
    assert 0.6 < np.mean(steps) < 1.4
    stays = [int((order == np.arange(count)).sum()) for order in orders]
    assert 0.6 < np.mean(stays) < 1.4
    kept = [int((order[:half] < half).sum()) for order in orders]
    assert abs(np.mean(kept) - 2500) < 25  # of a spread of 25 for one order
    assert 12 < np.std(kept) < 40
    agree = [int((one == other).sum()) for one, other in pairwise(orders)]
    assert 0.6 < np.mean(agree) < 1.5


def test_small_orders_are_all_met():
    met = {tuple(whole(4, [seed]).tolist()) for seed in range(400)}
    assert len(met) == 24


def test_the_same_on_every_machine():
    """A change here makes runs that continue see other batches than they would have."""
    assert whole(1000, [7, 2])[:5].tolist() == [550, 578, 303, 412, 422]
