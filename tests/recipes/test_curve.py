"""Expected curves: written, read back, and what they say of a run."""

import json

import pytest

from gnomon.errors import RecipeError
from gnomon.recipes import (
    curve_of_runs,
    hold_against,
    load_recipe,
    parse_curve,
    preset_names,
    read_curve,
    shipped_curve,
)

RUNS = [[(100, 4.0), (200, 3.0), (300, 2.0)], [(100, 4.4), (200, 3.1), (400, 1.9)]]


@pytest.fixture
def recipe():
    return load_recipe("tiny", ["data.pairs=x.tsv"])


@pytest.fixture
def curve(recipe):
    return curve_of_runs(recipe, RUNS, tolerance=0.1, measured_on={"cpu": "x"}, text="abc")


def test_band_by_hand(curve):
    assert [(p.step, p.nll, p.low, p.high) for p in curve.points] == [
        (100, 4.2, 3.6, 4.84),
        (200, 3.05, 2.7, 3.41),
    ]
    assert curve.num_runs == 2


def test_round_trip(curve, tmp_path):
    assert parse_curve(curve.to_json(), "x") == curve
    (tmp_path / "c.json").write_text(curve.to_json())
    assert read_curve(tmp_path / "c.json") == curve


def test_within_and_departed(curve, recipe):
    def held(*run, text="abc"):
        return hold_against(curve, recipe, run, text)

    good = held((100, 4.0), (200, 3.4))
    assert (good.num_points, good.num_inside, good.departure, good.comparable) == (2, 2, None, True)
    left = held((100, 4.0), (200, 3.5)).departure
    assert (left.step, left.nll, left.high) == (200, 3.5, 3.41)
    assert held((100, 9.0), (200, 9.0)).departure.step == 100
    late = held((100, 9.0), (200, 3.0))
    assert late.departure is None and late.num_inside == 1
    assert held((150, 3.0)).num_points == 0
    assert not held((150, 3.0)).comparable
    assert held((100, float("nan"))).departure.step == 100
    assert held((100, 4.0), text="other").other_text
    assert not held((100, 4.0), text="other").comparable


def test_only_keys_that_decide_learning_bind(curve):
    free = load_recipe("tiny", ["data.pairs=y.tsv", "training.seed=7", "training.device=cpu"])
    assert hold_against(curve, free, RUNS[0], "abc").differences == []
    other = load_recipe("tiny", ["data.pairs=x.tsv", "schedule.peak=0.5"])
    assert hold_against(curve, other, RUNS[0], "abc").differences == ["schedule.peak: 0.002 → 0.5"]


def test_mistakes(recipe, tmp_path):
    with pytest.raises(RecipeError, match="steps that all runs share"):
        curve_of_runs(recipe, [RUNS[0], [(7, 1.0)]], tolerance=0, measured_on={}, text=None)
    with pytest.raises(RecipeError, match="share"):
        curve_of_runs(recipe, RUNS, tolerance=2, measured_on={}, text=None)
    with pytest.raises(RecipeError, match="readable"):
        read_curve(tmp_path / "absent.json")
    for text in ("", "[]", "{}", '{"format_version": 1, "points": [1]}'):
        with pytest.raises(RecipeError, match="save-curve"):
            parse_curve(text, "x")


def test_a_later_format_is_named(curve):
    text = json.dumps(json.loads(curve.to_json()) | {"format_version": 99})
    with pytest.raises(RecipeError, match="99"):
        parse_curve(text, "x")


def test_shipped_curves_belong_to_their_preset_as_it_is():
    assert shipped_curve("no-such-preset") is None
    for name in preset_names():
        if (curve := shipped_curve(name)) is not None:
            recipe = load_recipe(name, ["data.pairs=x.tsv"])
            run = [(point.step, point.nll) for point in curve.points]
            assert hold_against(curve, recipe, run, curve.text).comparable, name
