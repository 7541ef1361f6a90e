"""ROUGE is Google's on English, and does not fall silent on other text."""

from __future__ import annotations

import random
import sys
from collections import Counter

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer

from gnomon.errors import DataError
from gnomon.evaluation import EvaluationConfig, evaluate_translations, measured_lines, measures_of
from gnomon.evaluation.config import ROUGE
from gnomon.evaluation.rouge import Rouge, RougeWords

WORDS = ["the", "a", "cat", "cats", "sat", "mats", "running", "don't", "e-mail", "x_y", "3.50"]


def _lines(seed: int, count: int = 40) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randrange(0, 9))) for _ in range(count)]


@pytest.mark.parametrize("stem", [False, True])
def test_english_is_read_as_the_package_itself_reads_it(stem: bool) -> None:
    ours, references = _lines(0), _lines(1)
    config = EvaluationConfig(metrics=("rouge",), stem=stem)
    theirs = RougeScorer(list(ROUGE), use_stemmer=stem)
    for measure, rows in measured_lines(ours, references, config):
        expected = [
            theirs.score(reference, line)[measure.name]
            for line, reference in zip(ours, references, strict=True)
        ]
        assert rows[:, :3].tolist() == [list(one) for one in expected]
        mean = np.mean([one.fmeasure for one in expected])
        assert measure.score(rows).value == pytest.approx(100 * mean)


def _by_definition(name: str, line: str, reference: str) -> float:
    """Lin's formulas over single characters."""
    ours, theirs = list(line), list(reference)
    if name == "rougeL":
        table = [[0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
        for i, one in enumerate(ours):
            for j, other in enumerate(theirs):
                longest = max(table[i][j + 1], table[i + 1][j])
                table[i + 1][j + 1] = table[i][j] + 1 if one == other else longest
        matched, sizes = table[-1][-1], (len(ours), len(theirs))
    else:
        n = int(name[-1])
        grams = [Counter(zip(*(x[i:] for i in range(n)), strict=False)) for x in (ours, theirs)]
        matched = sum((grams[0] & grams[1]).values())
        sizes = (sum(grams[0].values()), sum(grams[1].values()))
    return 200 * matched / sum(sizes)


@pytest.mark.parametrize("name", ROUGE)
def test_chinese_is_counted_by_characters(name: str) -> None:
    line, reference = "北京今天下了大雪", "今天北京下雪了"
    assert RougeScorer([name]).score(reference, line)[name].fmeasure == 0  # the package alone
    measure = Rouge(name)
    score = measure.score(measure.rows([line], [reference]))
    assert score.value == pytest.approx(_by_definition(name, line, reference))
    assert score.value > 20


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Größe naïve", ["größe", "naïve"]),
        ("Привет, мир_1", ["привет", "мир", "1"]),
        ("東京タワーのA4判", ["東", "京", "タ", "ワ", "ー", "の", "a4", "判"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("อากาศดี", ["อ", "า", "ก", "า", "ศ", "ดี"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("e\u0301te\u0301", ["e\u0301te\u0301"]),
        ("\u0301 !? _ ", ["\u0301"]),
        ("", []),
    ],
)
def test_words_of_any_script(text: str, words: list[str]) -> None:
    assert RougeWords().tokenize(text) == words


def test_by_characters_on_demand() -> None:
    assert RougeWords(characters=True).tokenize("한국 ab") == ["한", "국", "a", "b"]
    config = EvaluationConfig(metrics=("rouge1",), tokenize="char")
    (measure,) = measures_of(config, ["x"])
    assert "tok:char" in measure.signature()


def test_stems_are_of_english_words_alone() -> None:
    assert RougeWords(stem=True).tokenize("Running hopes größere") == ["run", "hope", "größere"]


def test_intervals_and_significance_come_with_it() -> None:
    references = [f"word{i} is the title of text {i}" for i in range(60)]
    good = [f"word{i} is title {i}" + " of all" * (i % 3) for i in range(60)]
    bad = ["a title"] * 60
    report = evaluate_translations(
        good, references, EvaluationConfig(metrics=("rouge",)), against={"bad": bad}
    )
    assert [score.name for score in report.scores] == list(ROUGE)
    for score in report.scores:
        assert score.interval is not None
        assert score.interval[0] <= score.value <= score.interval[1]
        assert "stem:no" in score.signature
        assert "rouge-score-" in score.signature
    assert all(one.p_value < 0.01 for one in report.comparisons["bad"])


def test_settings_that_do_not_fit_are_told() -> None:
    assert EvaluationConfig(metrics=("rouge", "rouge1")).problems()
    assert EvaluationConfig(stem=True).unused()
    assert not EvaluationConfig(metrics=("rougeL",), stem=True).unused()


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    with pytest.raises(DataError, match=r"gnomon\[rouge\]"):
        measures_of(EvaluationConfig(metrics=("rouge",)), ())
