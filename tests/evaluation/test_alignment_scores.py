"""Alignment error rate by hand."""

from __future__ import annotations

import pytest

from gnomon.errors import DataError
from gnomon.evaluation import alignment_scores, parse_links


def test_links_are_read() -> None:
    sure, possible = parse_links("0-0 2p1 10-3")
    assert sure == {(0, 0), (10, 3)}
    assert possible == {(0, 0), (2, 1), (10, 3)}
    assert parse_links("") == (set(), set())
    for wrong in ("1", "a-b", "1-2-3", "-1-2", "1?2"):
        with pytest.raises(DataError, match="i-j"):
            parse_links(wrong)


def test_rates_by_hand() -> None:
    gold = [parse_links("0-0 1-1 2p2"), parse_links("0-1")]
    found = [{(0, 0), (2, 2), (3, 3)}, {(0, 1)}]
    # A = 4, S = 3, A and S = 2, A and P = 3
    aer, precision, recall = alignment_scores(found, gold)
    assert aer.value == pytest.approx(100 * (1 - 5 / 7))
    assert precision.value == pytest.approx(75.0)
    assert recall.value == pytest.approx(100 * 2 / 3)
    assert not aer.higher_is_better
    perfect = alignment_scores([{(0, 0), (1, 1)}, {(0, 1)}], gold)
    assert [score.value for score in perfect] == [0.0, 100.0, 100.0]
    with_possible = alignment_scores([{(0, 0), (1, 1), (2, 2)}, {(0, 1)}], gold)
    assert with_possible[0].value == 0.0


def test_what_cannot_be_judged() -> None:
    with pytest.raises(DataError, match="line by line"):
        alignment_scores([set()], [])
    with pytest.raises(DataError, match="0 found"):
        alignment_scores([set()], [parse_links("0-0")])
