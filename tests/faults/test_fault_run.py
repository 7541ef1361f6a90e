"""The runner: paired with the clean twin, by the right cause, at the right place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.faults import run
from benchmarks.faults.fault import load_named
from benchmarks.faults.hosts import bare, development

NAME = "masks/no_look_ahead_in_one_layer"


def finding(code: str, verdict: str, *where: str) -> Any:
    return SimpleNamespace(code=code, verdict=verdict, where=where, evidence="so it is")


def result_of(monkeypatch: pytest.MonkeyPatch, clean: list[Any], faulty: list[Any]) -> run.Result:
    answers = iter([clean, faulty])
    monkeypatch.setattr(run, "examine", lambda patient, only: next(answers))
    return run.Runner(seed=0).pair(load_named(NAME), development()["nano"])


def test_the_right_code_at_the_right_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    leak = finding("future-leak", "fail", "h.1.attn")
    found = result_of(monkeypatch, [], [leak, finding("score-scale", "warn")])
    assert (found.verdict, found.codes, found.place) == ("fail", ("future-leak",), True)
    assert found.others == ("score-scale",)


def test_another_layer_is_not_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    found = result_of(monkeypatch, [], [finding("future-leak", "warn", "h.1", "h.10.attn")])
    assert (found.verdict, found.place) == ("warn", False)


def test_what_the_clean_twin_shows_too_is_no_detection(monkeypatch: pytest.MonkeyPatch) -> None:
    leak = finding("future-leak", "fail", "h.1.attn")
    assert result_of(monkeypatch, [leak], [leak]).verdict == ""


def test_another_cause_is_no_detection(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [finding("padding-leak", "fail"), finding("future-leak", "skip")]
    found = result_of(monkeypatch, [], said)
    assert (found.verdict, found.others) == ("", ("padding-leak",))
    assert found.skipped == ("future-leak: so it is",)


@pytest.mark.parametrize("name", ["corpus/one_line_lost", "training/recipe_without_warm_up"])
def test_hosts_without_a_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "examine", lambda patient, only: [])
    host = bare.CORPUS if name.startswith("corpus") else bare.RECIPE
    found = run.Runner(seed=0).pair(load_named(name), host)
    assert (found.error, found.verdict) == ("", "")
    assert found.acts


def test_quick_runs_make_the_expected_checks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(run, "examine", lambda patient, only: asked.append(only) or [])
    fault = load_named("loss/labels_shifted_twice")
    run.Runner(seed=0, quick=True).pair(fault, development()["nano"])
    assert asked == [run.expected_codes(fault.expected)] * 2
    assert asked[0]
    halves = ("fp16-norm", "fp16-range", "fp16-residual", "fp16-scores")
    assert run.expected_codes({"fp16-*"}) == halves
