import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import DataError
from gnomon.text.epochs import LazySequence
from gnomon.training.cursor import DataCursor


def epochs(number):
    """Two parts, of two batches and of one or two."""
    batches = [(number, index) for index in range(3 + number % 2)]
    return [batches[:2], batches[2:]]


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=8), cut=st.integers(0, 7))
def test_a_new_cursor_at_the_same_place_goes_on_the_same_way(counts, cut):
    whole = DataCursor(epochs)
    everything = [whole.take(count) for count in counts]
    first = DataCursor(epochs)
    before = [first.take(count) for count in counts[:cut]]
    second = DataCursor(epochs, epoch=first.epoch, part=first.part, batch=first.batch)
    assert before + [second.take(count) for count in counts[cut:]] == everything


def test_epochs_follow_one_another_without_loss_or_repetition():
    cursor = DataCursor(epochs)
    assert cursor.take(9) == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 0),
        (2, 1),
    ]


def test_the_last_group_takes_what_is_left():
    cursor = DataCursor(epochs, max_epochs=1)
    assert cursor.take(2) == [(0, 0), (0, 1)]
    assert not cursor.exhausted
    assert cursor.take(2) == [(0, 2)]
    assert cursor.exhausted
    assert cursor.take(2) == []


def test_an_empty_epoch_is_an_error_not_an_endless_loop():
    with pytest.raises(DataError, match="at least one batch"):
        DataCursor(lambda number: [])


def test_to_begin_anywhere_makes_one_part():
    made = []

    def epochs(number):
        def make(part):
            made.append((number, part))
            return [(number, part, batch) for batch in range(4)]

        return LazySequence(1000, make)

    cursor = DataCursor(epochs, epoch=3, part=998, batch=2)
    assert made == [(3, 998)]
    assert cursor.take(7)[1:3] == [(3, 998, 3), (3, 999, 0)]
    assert made == [(3, 998), (3, 999), (4, 0)]
    assert cursor.approximate_batches == 4000
