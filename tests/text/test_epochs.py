"""An epoch in parts shows what an epoch as a whole would, in the same kind of batches."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gnomon.text import BatchPlan
from gnomon.text.epochs import Epochs, LazySequence
from gnomon.text.lengths import Lengths
from gnomon.text.weights import Weights
from gnomon.training.cursor import DataCursor


def lengths_of(values, extra=0):
    return Lengths(np.concatenate([[0], np.cumsum(values)]).astype(np.int64), extra)


def sides(count, seed=0):
    random = np.random.default_rng(seed)
    source = np.clip(random.lognormal(2.7, 0.4, count), 3, 100).astype(np.int64)
    target = np.clip(source * random.lognormal(0.05, 0.2, count), 3, 120).astype(np.int64)
    return lengths_of(source), lengths_of(target)


def shown(parts):
    return np.concatenate(list(chain.from_iterable(parts)))


def lists(parts):
    return [[batch.tolist() for batch in part] for part in parts]


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 300), st.integers(0, 3), st.integers(1, 250))
def test_every_example_once_in_parts_of_one_size(count, part, number, budget):
    lengths = sides(count)
    epochs = Epochs(Weights([1.0], [count], 5), budget, 5, part)
    parts = epochs.epoch(number, *lengths)
    assert sorted(shown(parts).tolist()) == list(range(count))
    sizes = [len(np.concatenate(batches)) for batches in parts]
    assert max(sizes) <= part
    assert max(sizes) - min(sizes) <= 1
    for batch in chain.from_iterable(parts):
        padded = len(batch) * (lengths[0][batch].max() + lengths[1][batch].max())
        assert len(batch) == 1 or padded <= budget


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(1, 400).map(lambda n: n / 100)),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 30),
    st.integers(0, 3),
)
def test_parts_show_exactly_what_the_weights_ask_for(sources, part, number):
    assume(any(count * round(100 * weight) >= 100 for count, weight in sources))
    bounds = np.cumsum([count for count, _ in sources]).tolist()
    weights = Weights([weight for _, weight in sources], bounds, 3)
    parts = Epochs(weights, 200, 3, part).epoch(number, *sides(bounds[-1]))
    asked = weights.examples(number, np.arange(weights.size(number)))
    assert sorted(shown(parts).tolist()) == sorted(asked.tolist())


def test_an_epoch_that_fits_is_planned_as_a_whole():
    source, target = sides(500)
    epochs = Epochs(Weights([1.0], [500], 7), 1024, 7, 500)
    for number in (0, 1, 5):
        (batches,) = epochs.epoch(number, source, target)
        plan = BatchPlan(np.asarray(source), np.asarray(target), 1024, 7).epoch(number)
        assert lists([batches]) == lists([plan])


def test_a_function_of_seed_and_epoch_whatever_was_asked_before():
    lengths = sides(300)

    def epoch(number, seed=1):
        return Epochs(Weights([1.0], [300], seed), 300, seed, 64).epoch(number, *lengths)

    eager = lists(epoch(2))
    parts = epoch(2)
    assert lists([parts[4], parts[1]]) == [eager[4], eager[1]]
    assert lists(parts[1:3]) == eager[1:3]
    assert lists([parts[-1]]) == eager[-1:]
    with pytest.raises(IndexError):
        parts[len(eager)]
    assert lists(epoch(3)) != eager
    assert lists(epoch(2, seed=2)) != eager


def test_parts_are_other_parts_in_the_next_epoch():
    lengths = sides(1000)
    epochs = Epochs(Weights([1.0], [1000], 1), 300, 1, 100)
    one, other = (
        [set(np.concatenate(part).tolist()) for part in epochs.epoch(number, *lengths)]
        for number in (1, 2)
    )
    shared = [len(a & b) for a in one for b in other]
    assert max(shared) < 30  # 10 of 100 by chance
    neighbours = [len({place // 100 for place in part}) for part in one]
    assert min(neighbours) == 10  # from all over the corpus


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_the_longest_example_comes_first_wherever_it_stands(weight):
    for place in (0, 77, 299):
        source, target = (np.asarray(side).copy() for side in sides(300))
        source[place] = target[place] = 500
        lengths = lengths_of(source), lengths_of(target)
        epochs = Epochs(Weights([weight], [300], 1), 400, 1, 64)
        parts = epochs.epoch(0, *lengths)
        assert parts[0][0].tolist() == [place]
        assert (np.bincount(shown(parts)) == weight).all()


@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.7, 1.6]])
def test_a_cursor_goes_on_in_any_part(weights):
    lengths = sides(120)

    def cursor(**place):
        epochs = Epochs(Weights(weights, [40, 120], 2), 150, 2, 32)
        return DataCursor(lambda number: epochs.epoch(number, *lengths), **place)

    whole = [spec.tolist() for spec in cursor().take(90)]
    walker = cursor()
    places = set()
    for taken in range(0, 90, 7):
        resumed = cursor(epoch=walker.epoch, part=walker.part, batch=walker.batch)
        places.add((walker.epoch, walker.part))
        assert [spec.tolist() for spec in resumed.take(5)] == whole[taken : taken + 5][:5]
        walker.take(7)
    assert len({epoch for epoch, _ in places}) > 1
    assert len({part for _, part in places}) > 2


def test_lengths_are_those_of_an_array():
    values = np.random.default_rng(0).integers(0, 9, 200_000)
    lengths, expected = lengths_of(values, 2), values + 2
    rows = np.array([5, 199_999, 5, 0])
    assert len(lengths) == 200_000
    assert np.array_equal(lengths[rows], expected[rows])
    assert lengths[-1] == expected[-1]
    assert lengths[7] == expected[7]
    assert np.array_equal(lengths[10:20:3], expected[10:20:3])
    assert np.array_equal(lengths, expected)
    assert lengths.max() == expected.max() == np.concatenate(list(lengths.blocks())).max()
    assert lengths.sum() == expected.sum()


def test_a_lazy_sequence_makes_what_is_asked_for():
    made = []
    lazy = LazySequence(4, lambda number: made.append(number) or 10 * number)
    assert len(lazy) == 4
    assert lazy[2] == 20
    assert lazy[-1] == 30
    assert made == [2, 3]
    assert lazy[:2] == [0, 10]
    assert list(lazy) == [0, 10, 20, 30]
    assert not LazySequence(0, lambda number: number)
