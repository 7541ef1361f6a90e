"""Marked places are found as a list would give them, without the list."""

import tracemalloc

import numpy as np
import pytest

from gnomon.text.marked import Marked


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    ("start", "stop"), [(0, 30_000), (5, 4_101), (4_096, 8_192), (77, 20_000), (9, 10), (9, 9)]
)
def test_places_are_those_of_a_list(value, start, stop):
    rng = np.random.default_rng(1)
    marks = rng.random(30_000) < 0.01
    marks[4_096:8_192] = False  # a block without any
    listed = np.flatnonzero(marks[start:stop] == value) + start
    found = Marked(marks, value, start, stop)
    assert len(found) == len(listed)
    ranks = np.arange(len(listed))
    assert found[ranks].tolist() == listed.tolist()
    if len(ranks):
        some = rng.choice(ranks, 500)  # in any order, some of them twice
        assert found[some].tolist() == listed[some].tolist()
    assert found[ranks[:0]].tolist() == []


def test_memory_hardly_grows_with_the_marks():
    marks = np.zeros(4_000_000, np.bool_)
    tracemalloc.start()
    try:
        marked = Marked(marks, False, 0, len(marks))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(marked) == len(marks)
    assert held < len(marks) // 20  # a list of them takes 8 bytes each
