import json

import pytest

from gnomon.errors import DataError
from gnomon.evaluation import EvaluationConfig, EvaluationReport, Score, evaluate_translations

SOURCES = ["one", "", "three"]
REFERENCES = ["eins", "", "drei"]
HYPOTHESES = ["eins", "", "drei\u2028?"]


@pytest.fixture
def report():
    return evaluate_translations(
        HYPOTHESES,
        REFERENCES,
        EvaluationConfig(),
        sources=SOURCES,
        baselines={"copy": SOURCES},
    )


def test_every_line_is_kept_in_order(report):
    assert [line.number for line in report.lines] == [1, 2, 3]
    assert [line.hypothesis for line in report.lines] == HYPOTHESES
    assert [line.exact for line in report.lines] == [True, True, False]
    assert report["exact_match"].value == pytest.approx(200 / 3)
    with pytest.raises(KeyError):
        report["meteor"]


def test_baselines_take_the_same_scores(report):
    assert [s.name for s in report.baselines["copy"]] == [s.name for s in report.scores]
    assert [s.signature for s in report.baselines["copy"]] == [s.signature for s in report.scores]
    assert report.baselines["copy"][2].value == pytest.approx(100 / 3)


def test_json_holds_everything(report):
    plain = json.loads(report.to_json())
    assert plain["format_version"] == 1
    assert plain["num_lines"] == 3
    assert [score["name"] for score in plain["scores"]] == ["bleu", "chrf", "exact_match"]
    assert plain["scores"][0]["signature"] == report["bleu"].signature
    assert plain["baselines"]["copy"][2]["value"] == pytest.approx(100 / 3)
    assert [line["hypothesis"] for line in plain["lines"]] == HYPOTHESES
    assert plain["lines"][2]["number"] == 3


def test_json_stays_strict_with_infinite_scores():
    score = Score(name="perplexity", value=float("inf"), signature="", higher_is_better=False)
    text = EvaluationReport(scores=[score], baselines={}, lines=[]).to_json()
    assert json.loads(text)["scores"][0]["value"] is None
    assert json.loads(text)["lines"] == []


def test_counts_must_agree():
    config = EvaluationConfig()
    with pytest.raises(DataError, match="2 sources, 3 references"):
        evaluate_translations(HYPOTHESES, REFERENCES, config, sources=SOURCES[:2])
    with pytest.raises(DataError, match="1 translations, 3 references"):
        evaluate_translations(HYPOTHESES[:1], REFERENCES, config)
    with pytest.raises(DataError, match="2 translations, 3 references"):
        evaluate_translations(HYPOTHESES, REFERENCES, config, baselines={"copy": SOURCES[:2]})
