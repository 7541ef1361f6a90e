import math

import pytest

from gnomon.decoding import SearchConfig
from gnomon.errors import RecipeError


def test_defaults_have_no_problems():
    assert SearchConfig().problems() == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"beam": 0, "nbest": 1}, "beam"),
        ({"nbest": 0}, "nbest"),
        ({"beam": 2, "nbest": 3}, "nbest"),
        ({"length_penalty": "wu"}, "length_penalty"),
        ({"alpha": math.nan}, "alpha"),
        ({"alpha": 99.0}, "alpha"),
        ({"max_length_factor": -1.0}, "max_length_factor"),
        ({"max_length_factor": math.inf}, "max_length_factor"),
        ({"max_length_factor": 0.0, "max_length_offset": 0}, "max_length_offset"),
        ({"max_length_offset": 1_000_000_000}, "max_length_offset"),
        ({"min_length": 0}, "min_length"),
    ],
)
def test_each_problem_is_named_with_its_value(values, named):
    problems = SearchConfig(**values).problems()
    assert any(named in problem for problem in problems)


def test_all_problems_come_at_once():
    assert len(SearchConfig(beam=0, alpha=99.0, min_length=0).problems()) >= 3


def test_penalties_by_hand():
    assert SearchConfig(length_penalty="none").penalty(7) == 1
    assert SearchConfig(length_penalty="average").penalty(7) == 7
    gnmt = SearchConfig(length_penalty="gnmt", alpha=2.0)
    assert gnmt.penalty(1) == 1
    assert gnmt.penalty(7) == 4


def test_max_lengths_round_up_and_are_at_least_one():
    config = SearchConfig(max_length_factor=1.5, max_length_offset=2)
    assert config.max_lengths([1, 2, 3]) == [4, 5, 7]
    assert SearchConfig(max_length_factor=1.0, max_length_offset=-9).max_lengths([3]) == [1]


def test_a_beam_of_none_is_one_mistake() -> None:
    with pytest.raises(RecipeError) as caught:
        SearchConfig().changed({"beam": 0})
    assert "beam must be at least 1" in str(caught.value)
    assert "nbest" not in str(caught.value)
