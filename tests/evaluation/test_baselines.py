"""The nearest training line against a plain tf-idf cosine written with dictionaries."""

import math
import random
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import DataError
from gnomon.evaluation import NearestLine, copy_source


def grams(text):
    framed = f"\0{text.casefold()}\0\0"
    return Counter(framed[i : i + 3] for i in range(len(framed) - 2))


def cosines(train, query):
    frequency = Counter(gram for text in train for gram in grams(text))
    idf = {gram: math.log(len(train) / count) + 1 for gram, count in frequency.items()}

    def vector(text):
        return {gram: n * idf[gram] for gram, n in grams(text).items() if gram in idf}

    def norm(v):
        return math.sqrt(sum(x * x for x in v.values())) or 1.0

    q = vector(query)
    result = []
    for text in train:
        v = vector(text)
        dot = sum(q[g] * v[g] for g in q.keys() & v.keys())
        result.append(dot / norm(v) / norm(q))
    return result


texts = st.text(alphabet="abcä 犬🐕", max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.lists(texts, min_size=1, max_size=8), st.lists(texts, max_size=4))
def test_equals_plain_cosine(train, queries):
    places = NearestLine(train, train).nearest(queries)
    assert len(places) == len(queries)
    for query, place in zip(queries, places, strict=True):
        expected = cosines(train, query)
        assert expected[place] == pytest.approx(max(expected), abs=1e-12)


def test_a_training_line_finds_its_own_translation():
    train = ["one dog", "two dogs", "a cat", ""]
    nearest = NearestLine(train, ["ein Hund", "zwei Hunde", "eine Katze", "leer"])
    assert nearest.translate(["two dogs", "A CAT", "", "one dog!"]) == [
        "zwei Hunde",
        "eine Katze",
        "leer",
        "ein Hund",
    ]


def test_first_of_equals_and_first_when_nothing_is_alike():
    nearest = NearestLine(["abc", "xyz", "abc"], ["1", "2", "3"])
    assert nearest.translate(["abc", "qqq"]) == ["1", "1"]


def test_no_queries():
    assert NearestLine(["a"], ["b"]).translate([]) == []


@pytest.mark.parametrize(("sources", "targets"), [([], []), (["a"], [])])
def test_bad_counts_are_refused(sources, targets):
    with pytest.raises(DataError, match="sources"):
        NearestLine(sources, targets)


def test_copy_keeps_every_line():
    assert copy_source(["a", "", "b"]) == ["a", "", "b"]


def test_forty_thousand_lines_take_seconds():
    """A guard against quadratic time, ten times above what it takes (about 2 s)."""
    random.seed(0)
    words = [
        "".join(random.choices("abcdefghijklmnop", k=random.randint(2, 9))) for _ in range(3000)
    ]
    train = [" ".join(random.choices(words, k=8)) for _ in range(40_000)]
    start = time.process_time()
    places = NearestLine(train, train).nearest(train[::40])
    assert places == list(range(0, 40_000, 40))
    assert time.process_time() - start < 20
