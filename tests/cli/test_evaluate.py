"""`gnomon evaluate` with its options, in process, on a run of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from command_line import invoke as gnomon
from digits import TrainedRun
from gnomon.errors import GnomonError
from gnomon.training import RunFolder


@pytest.fixture
def run(trained_run: TrainedRun, tmp_path: Path) -> Path:
    shutil.copytree(trained_run.path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "evaluations", ignore_errors=True)
    return tmp_path / "run"


def blocks(text: str) -> dict[str, list[list[str]]]:
    """The rows of standard output by the title of the comment line above them."""
    found: dict[str, list[list[str]]] = {"": []}
    title = ""
    for line in text.splitlines():
        if line.startswith("# "):
            title = line[2:].split(":")[0]
            found[title] = []
        else:
            found[title].append(line.split("\t"))
    return found


def test_every_table_at_once(run: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("123\n4567 89\nx y\n")
    (tmp_path / "b").write_text("321\n98 7654\ny x\n")
    done = gnomon(
        *("evaluate", run, "--src", tmp_path / "a", "--ref", tmp_path / "b", "--by-length"),
        *("--worst", "2", "--robustness", "--metrics", "chrf,ter", "--against", tmp_path / "b"),
    )
    found = blocks(done.stdout)
    assert [row[0] for row in found[""]] == ["chrf", "ter", "perplexity"]
    low, value, high = (float(found[""][0][place]) for place in (3, 1, 4))
    assert low <= value <= high
    assert "edits" in found[""][1][5]
    assert [row[:2] for row in found["by source length"]] == [["1–5", "3"]]
    assert len(found["worst sentences by chrF"]) == 2
    (against,) = (rows for title, rows in found.items() if title.startswith("against"))
    assert [row[0] for row in against] == ["chrf", "ter"]
    assert float(against[0][2]) == 100.0
    robust = {row[0]: row for row in found["robustness (score, difference to the clean text)"]}
    assert "skipped" in robust["no punctuation"][-1]
    assert robust["other numbers"][1] == "2"
    (stored,) = (run / "evaluations").glob("*.json")
    report = json.loads(stored.read_text())
    assert len(report["robustness"]) == len(robust)
    assert report["outputs"]["num_lines"] == 3
    assert report["lines"][0]["truncated"] in (True, False)
    assert str(stored) in done.stderr


def test_the_card_gets_the_scores_and_the_checkpoint_stays_whole(run: Path) -> None:
    for metrics in ("chrf", "chrf", "chrf,ter"):
        gnomon("evaluate", run, "--metrics", metrics)
    checkpoint = RunFolder(run).best()
    card = (checkpoint / "README.md").read_text()
    assert card.count("## Scores") == 1
    assert card.count("| chrf |") == 1
    assert card.count("| ter |") == 1
    assert "Limits:" in card
    RunFolder(run).checkpoints.load(40)  # verifies every file


def test_files_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "hyp").write_text("the cat sat on the mat\na dog\n")
    (tmp_path / "ref").write_text("the cat sat on a mat\na dog runs\n")
    arguments = ("--ref", tmp_path / "ref", "--tokenize", "none", "--metrics", "bleu")
    done = gnomon("evaluate", "--hyp", tmp_path / "hyp", *arguments)
    (row,) = blocks(done.stdout)[""]
    assert row[5] == "87.5/66.7/50.0/33.3 BP 0.882 ref 9"
    assert "tok:none" in row[2]
    done = gnomon("evaluate", "--hyp", tmp_path / "hyp", *arguments, "--json")
    assert json.loads(done.stdout)["scores"][0]["details"] == row[5]


def test_options_change_the_score(tmp_path: Path) -> None:
    (tmp_path / "hyp").write_text("我是学生\nA\n")
    (tmp_path / "ref").write_text("我是老生\na\n")
    seen = set()
    for options in ([], ["--language", "de"], ["--tokenize", "char"], ["--lowercase"]):
        done = gnomon(
            "evaluate", "--hyp", tmp_path / "hyp", "--ref", tmp_path / "ref", *options, "--json"
        )
        seen.add(tuple(s["signature"] for s in json.loads(done.stdout)["scores"]))
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["evaluate"], "--hyp"),
        (["evaluate", "--hyp", "x"], "--ref"),
        (["evaluate", "MODEL", "--hyp", "x", "--ref", "x"], "a model"),
        (["evaluate", "--hyp", "x", "--ref", "x", "--robustness"], "--robustness"),
        (["evaluate", "--hyp", "x", "--ref", "x", "--beam", "2"], "--beam"),
        (["evaluate", "--hyp", "x", "--ref", "x", "--tag", "<a>", "--with", "x"], "--tag, --with"),
        (["evaluate", "--hyp", "absent", "--ref", "absent"], "absent"),
        (["evaluate", "MODEL", "--tokenize", "13a", "--language", "de"], "language has no effect"),
        (["evaluate", "MODEL", "--combine", "log_mean"], "--with"),
        (["evaluate", "MODEL", "--metrics", "meteor"], "meteor"),
        (["evaluate", "MODEL", "--tokenize", "15a"], "15a"),
        (["evaluate", "MODEL", "--against", "absent"], "absent"),
    ],
)
def test_mistakes(trained_run: TrainedRun, arguments: list[str], named: str) -> None:
    real = [str(trained_run.path) if one == "MODEL" else one for one in arguments]
    with pytest.raises(GnomonError, match=named):
        gnomon(*real)


def test_training_ends_with_the_scores_of_its_test_text(
    trained_run: TrainedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test.tsv").write_text("123\t321\n4567\t7654\n")
    monkeypatch.chdir(tmp_path)
    command = ["train", trained_run.recipe, "--data", trained_run.data, "--run", "run"]
    command += ["--set", "training.max_steps=3", "--set", "data.test_pairs=test.tsv"]
    done = gnomon(*command)
    assert done.exit_code == 0, done.output
    assert "test.tsv, 2 lines, step-00000003:" in done.stderr
    assert "|tok:13a|" in done.stderr
    (report,) = (tmp_path / "run" / "evaluations").glob("*.json")
    assert f"report: {report.relative_to(tmp_path)}" in done.stderr.replace(f"{tmp_path}/", "")
    before = report.stat().st_mtime_ns
    again = gnomon(*command)
    assert "test.tsv, 2 lines" in again.stderr
    assert report.stat().st_mtime_ns == before


def test_an_average_does_not_inherit_scores(run: Path) -> None:
    from gnomon import api

    api.evaluate(run, settings={"resamples": 0})
    api.evaluate(run, settings={"resamples": 0}, checkpoint="last")
    card = api.average([run], last=2) / "README.md"
    assert "## Scores" not in card.read_text()
    assert "mean of" in card.read_text()
