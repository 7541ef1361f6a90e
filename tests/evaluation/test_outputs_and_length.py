"""Figures about outputs and scores by length, by hand."""

import pytest

from gnomon.evaluation import (
    EvaluationConfig,
    Output,
    chrf,
    evaluate_translations,
    output_figures,
)

SOURCES = ["eins zwei", "drei", "", "vier", "a b c d e f"]
REFERENCES = ["one two", "three", "", "four", "a b c d e f"]
OUTPUTS = [
    Output("one two", truncated=False, far=False),
    Output("", truncated=False, far=True),
    Output("", truncated=False, far=False),
    Output("x x x x x x", truncated=True, far=False),
    Output("a b c d e f", truncated=False, far=False),
]


def test_figures_by_hand():
    found = output_figures(OUTPUTS, REFERENCES, SOURCES)
    assert (found.num_lines, found.empty, found.truncated, found.far) == (5, 1, 1, 1)
    assert found.unit == "words"
    assert found.length_ratio == pytest.approx(14 / 10)
    # 4-grams: "x x x x" three times, "a b c d", "b c d e", "c d e f".
    assert found.repeated == pytest.approx(2 / 6)
    assert found.repeated_in_references == 0
    assert found.copied == found.copied_in_references == pytest.approx(1 / 4)


def test_what_is_not_known_is_none():
    found = output_figures([Output("a")], ["a"])
    assert found.truncated is found.far is found.copied is found.copied_in_references is None


def test_text_without_blanks_is_counted_in_characters():
    found = output_figures([Output("我是学生。")], ["我 是 学生"])
    assert found.unit == "characters"
    assert found.length_ratio == pytest.approx(5 / 4)


def test_buckets_by_hand():
    lengths = [0, 1, 5, 6, 10, 51, 400]
    sources = [" ".join(["w"] * length) for length in lengths]
    hypotheses = [f"{source} w" if source else "" for source in sources]
    report = evaluate_translations(hypotheses, sources, EvaluationConfig(), sources=sources)
    assert [(b.label, b.num_lines) for b in report.by_length] == [
        ("0", 1),
        ("1–5", 2),
        ("6–10", 2),
        ("51+", 2),
    ]
    short = report.by_length[1]
    assert short.length_ratio == pytest.approx((2 + 6) / (1 + 5))
    assert short.scores["chrf"] == pytest.approx(chrf(hypotheses[1:3], sources[1:3]).value)
    assert report.by_length[0].length_ratio == 0


def test_worst_sentences_come_first_and_blank_references_never():
    report = evaluate_translations(OUTPUTS, REFERENCES, EvaluationConfig(), sources=SOURCES)
    assert [line.number for line in report.worst(2)] == [2, 4]
    assert [line.number for line in report.worst(9)] == [2, 4, 1, 5]
    assert report.lines[3].truncated and report.lines[1].far
    assert report.lines[0].chrf == pytest.approx(100)
