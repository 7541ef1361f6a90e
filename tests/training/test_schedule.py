import itertools
import math

import pytest

from gnomon.training.schedule import ScheduleConfig


def rate(step, *, d_model=512, max_steps=1000, **config):
    return ScheduleConfig(**config).build(d_model=d_model, max_steps=max_steps)(step)


def test_noam_equals_the_paper_by_hand():
    # d^-½ = 1/16 for 256; warm-up 100: step 1 → 1/16 · 1/1000, the peak 1/16 · 1/10 at 100.
    noam = {"kind": "noam", "warmup_steps": 100, "d_model": 256}
    assert rate(1, **noam) == pytest.approx(6.25e-5)
    assert rate(50, **noam) == pytest.approx(3.125e-3)
    assert rate(100, **noam) == pytest.approx(6.25e-3)
    assert rate(400, **noam) == pytest.approx(3.125e-3)
    assert rate(400, **noam, factor=2.0) == pytest.approx(6.25e-3)


def test_the_2017_base_model_peaks_at_7e_4():
    assert rate(4000, kind="noam") == pytest.approx(6.987712e-4, rel=1e-6)


def test_inverse_sqrt_is_noam_with_its_peak_named():
    for step in (1, 7, 100, 101, 999):
        assert rate(step, kind="inverse_sqrt", warmup_steps=100, peak=6.25e-3) == pytest.approx(
            rate(step, kind="noam", warmup_steps=100, d_model=256)
        )


@pytest.mark.parametrize("kind", ["inverse_sqrt", "cosine", "linear", "constant", "wsd"])
def test_warm_up_is_a_straight_line_to_the_peak(kind):
    config = {"kind": kind, "peak": 1e-3, "warmup_steps": 10}
    assert rate(1, **config) == pytest.approx(1e-4)
    assert rate(5, **config) == pytest.approx(5e-4)
    assert rate(10, **config) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("kind", "step", "share"),
    [
        ("cosine", 550, 0.5),
        ("cosine", 325, (1 + math.cos(math.pi / 4)) / 2),
        ("linear", 325, 0.75),
        ("linear", 550, 0.5),
        ("constant", 1000, 1.0),
        ("wsd", 800, 1.0),
        ("wsd", 900, 0.5),
    ],
)
def test_the_way_down_by_hand(kind, step, share):
    assert rate(step, kind=kind, peak=1e-3, warmup_steps=100) == pytest.approx(1e-3 * share)


@pytest.mark.parametrize("kind", ["cosine", "linear", "wsd"])
def test_the_last_step_is_at_the_final_ratio_and_stays_there(kind):
    config = {"kind": kind, "peak": 1e-3, "warmup_steps": 100, "final_ratio": 0.1}
    assert rate(1000, **config) == pytest.approx(1e-4)
    assert rate(2000, **config) == pytest.approx(1e-4)
    assert rate(999, **config) > 1e-4


@pytest.mark.parametrize("kind", ["noam", "inverse_sqrt", "cosine", "linear", "constant", "wsd"])
def test_no_jump_anywhere(kind):
    schedule = ScheduleConfig(kind=kind, peak=1e-3, warmup_steps=50).build(
        d_model=64, max_steps=400
    )
    rates = [schedule(step) for step in range(1, 500)]
    largest = max(abs(a - b) for a, b in itertools.pairwise(rates))
    assert all(r >= 0 for r in rates)
    assert largest < max(rates) / 40


def test_every_field_without_effect_is_reported_and_none_with_effect():
    moved = {
        "peak": 1.0,
        "factor": 2.0,
        "warmup_steps": 77,
        "final_ratio": 0.5,
        "decay_share": 0.9,
    }
    for kind in ("noam", "inverse_sqrt", "cosine", "linear", "constant", "wsd"):
        plain = ScheduleConfig(kind=kind)
        for name, value in moved.items():
            config = ScheduleConfig(kind=kind, **{name: value})
            steps = range(1, 10_000, 7)
            changes = [c.build(d_model=512, max_steps=9000) for c in (plain, config)]
            has_effect = any(changes[0](s) != changes[1](s) for s in steps)
            assert bool(config.unused()) != has_effect, (kind, name)


def test_all_problems_are_told_at_once():
    problems = ScheduleConfig(
        kind="cosine", peak=0, warmup_steps=-1, final_ratio=2, decay_share=0
    ).problems()
    assert len(problems) == 4
    assert ScheduleConfig(kind="noam", warmup_steps=0).problems()
    assert not ScheduleConfig(kind="linear", warmup_steps=0).problems()
