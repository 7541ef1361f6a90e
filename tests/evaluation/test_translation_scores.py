"""Scores against the sacreBLEU command line and against hand counts."""

import subprocess
import sys

import pytest

from gnomon.errors import DataError
from gnomon.evaluation import (
    EvaluationConfig,
    bleu,
    bleu_tokenizer,
    chrf,
    exact_match,
    ter,
    translation_scores,
)

HYPOTHESES = ["The cat sat on the mat.", "", "A dog runs quickly through the park"]
REFERENCES = ["The cat is on the mat.", "Nothing here.", "A Dog runs through the park"]


def by_command_line(tmp_path, metric, *options):
    """(score, signature without prefix) as the `sacrebleu` program prints them."""
    reference = tmp_path / "reference"
    reference.write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(reference), "-m", metric, "-w", "10"]
    done = subprocess.run(
        [*command, "--format", "text", *options],
        input="\n".join(HYPOTHESES) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    name, _, rest = done.stdout.strip().partition("|")
    signature, _, rest = rest.partition(" = ")
    return name, signature, float(rest.split()[0])


@pytest.mark.parametrize("tokenize", ["13a", "char", "zh", "intl", "none"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_bleu_equals_the_command_line(tmp_path, tokenize, lowercase):
    options = ["--tokenize", tokenize, *(["-lc"] if lowercase else [])]
    _, signature, value = by_command_line(tmp_path, "bleu", *options)
    ours = bleu(HYPOTHESES, REFERENCES, tokenize, lowercase=lowercase)
    assert ours.value == pytest.approx(value, abs=1e-9)
    assert ours.signature == signature


@pytest.mark.parametrize("lowercase", [False, True])
def test_chrf_equals_the_command_line(tmp_path, lowercase):
    options = ["--chrf-lowercase"] if lowercase else []
    _, signature, value = by_command_line(tmp_path, "chrf", *options)
    ours = chrf(HYPOTHESES, REFERENCES, lowercase=lowercase)
    assert ours.value == pytest.approx(value, abs=1e-9)
    assert ours.signature == signature


@pytest.mark.parametrize("lowercase", [False, True])
def test_ter_equals_the_command_line(tmp_path, lowercase):
    options = [] if lowercase else ["--ter-case-sensitive"]
    _, signature, value = by_command_line(tmp_path, "ter", *options)
    ours = ter(HYPOTHESES, REFERENCES, lowercase=lowercase)
    assert ours.value == pytest.approx(value, abs=1e-9)
    assert ours.signature == signature
    assert not ours.higher_is_better


def test_ter_by_hand():
    """One shift, one substitution, of five words; Chinese is edited by characters."""
    assert ter(["b a c d e"], ["a b c d e"]).value == pytest.approx(20)
    score = ter(["a b x d e"], ["a b c d e"])
    assert score.value == pytest.approx(20)
    assert score.details == "1 edits ref 5"
    assert ter(["我是学生"], ["我是老生"], "zh").value == pytest.approx(25)


def test_details_say_what_the_score_is_made_of():
    details = bleu(["a b c d e", "f g h i"], ["a b c x e", "f g h i j"], "none").details
    assert details == "88.9/71.4/60.0/33.3 BP 0.895 ref 10"
    assert exact_match(["a", "b"], ["a", "c"]).details == "1 of 2 lines"


def test_bleu_by_hand():
    """One sentence: 4 of 5 unigrams, 2 of 4 bigrams, 1 of 3 trigrams, 0 of 2 4-grams (→ 1/2)."""
    score = bleu(["a b c d e"], ["a b c x e"], "none")
    expected = 100 * (4 / 5 * 2 / 4 * 1 / 3 * (1 / 2) / 2) ** 0.25
    assert score.value == pytest.approx(expected)


def test_exact_match_counts_lines():
    score = exact_match(["a", " b ", "C", ""], ["a", "b", "c", ""])
    assert score.value == 75
    assert exact_match(["C"], ["c"], lowercase=True).value == 100
    assert (
        exact_match(["C"], ["c"]).signature != exact_match(["C"], ["c"], lowercase=True).signature
    )


def test_scores_come_in_the_order_of_the_configuration():
    config = EvaluationConfig(metrics=("exact_match", "bleu"), lowercase=True)
    scores = translation_scores(HYPOTHESES, REFERENCES, config)
    assert [score.name for score in scores] == ["exact_match", "bleu"]
    assert all("case:lc" in score.signature for score in scores)
    assert all(score.higher_is_better for score in scores)


def test_auto_tokenizer_reaches_the_signature():
    config = EvaluationConfig(metrics=("bleu",))
    (score,) = translation_scores(["我是学生"], ["我是学生"], config)
    assert "tok:zh" in score.signature
    assert score.value == pytest.approx(100)
    config = EvaluationConfig(metrics=("bleu",), language="de")
    (score,) = translation_scores(["我是学生"], ["我是学生"], config)
    assert "tok:13a" in score.signature


@pytest.mark.parametrize(
    ("line", "tokenizer"),
    [
        ("Ein Hund läuft.", "13a"),
        ("Собака бежит.", "13a"),
        ("3 + 4 = 7", "13a"),
        ("", "13a"),
        ("一只狗在跑。", "zh"),
        ("犬が走っています。", "char"),
        ("カタカナ", "char"),
        ("東京都の天気予報です", "char"),
        ("개가 달린다.", "char"),
        ("หมากำลังวิ่ง", "char"),
        ("The word 犬 means dog.", "13a"),
        ("2024年3月5日星期二 GMT", "zh"),
    ],
)
def test_tokenizer_by_script(line, tokenizer):
    assert bleu_tokenizer([line]) == tokenizer


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("de", "13a"), ("zh", "zh"), ("zh-Hant", "zh"), ("zh_CN", "zh"), ("JA", "char"),
     ("ko", "char"), ("th", "char"), ("en-GB", "13a")],
)  # fmt: skip
def test_tokenizer_by_language(language, tokenizer):
    assert bleu_tokenizer(["irrelevant"], language) == tokenizer


def test_a_tokenizer_without_its_package_says_what_to_install():
    try:
        import MeCab  # noqa: F401
    except ImportError:
        with pytest.raises(DataError, match=r"sacrebleu\[ja\]"):
            bleu(["犬"], ["犬"], "ja-mecab")


@pytest.mark.parametrize("metric", [bleu, chrf, exact_match])
def test_bad_counts_are_refused(metric):
    with pytest.raises(DataError, match=r"1 translations, 2 references"):
        metric(["a"], ["a", "b"])
    with pytest.raises(DataError, match="nothing to score"):
        metric([], [])


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"metrics": ()}, "metrics"),
        ({"metrics": ("bleu", "meteor")}, "meteor"),
        ({"metrics": ("bleu", "bleu")}, "repeat"),
        ({"tokenize": "mecab"}, "tokenize"),
        ({"language": "German"}, "language"),
        ({"resamples": 5}, "resamples"),
        ({"resample_seed": -1}, "resample_seed"),
    ],
)
def test_config_problems(values, named):
    assert any(named in problem for problem in EvaluationConfig(**values).problems())
    assert EvaluationConfig().problems() == []


def test_keys_without_effect():
    assert EvaluationConfig(language="de").unused() == []
    assert "language" in EvaluationConfig(language="de", tokenize="13a").unused()[0]
    assert "resample_seed" in EvaluationConfig(resamples=0, resample_seed=3).unused()[0]
