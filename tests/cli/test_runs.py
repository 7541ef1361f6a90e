"""`gnomon runs`: listing, comparing, expected curves; damage is named, never a traceback."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from pathlib import Path

import pytest

from command_line import invoke as gnomon
from command_line import run_command
from digits import TrainedRun
from gnomon import api
from gnomon.errors import GnomonError, RunError
from gnomon.training import RunFolder


@pytest.fixture
def runs(trained_run: TrainedRun, tmp_path: Path) -> Path:
    """Two equal runs in a folder, the second with another seed in its recipe."""
    folder = tmp_path / "runs"
    for name in ("a", "b"):
        shutil.copytree(trained_run.path, folder / name)
        shutil.rmtree(folder / name / "evaluations", ignore_errors=True)
    recipe = folder / "b" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("seed = 1\n", "seed = 2\n", 1))
    return folder


def test_lists_runs(runs: Path) -> None:
    (runs / "not-a-run").mkdir()
    done = gnomon("runs", runs)
    rows = [line.split("\t") for line in done.stdout.splitlines()[1:]]
    assert [Path(row[0]).name for row in rows] == ["a", "b"]
    assert rows[0][1:4] == ["digits", "finished (max_steps)", "40 of 40"]
    assert rows[0][4].startswith("nll ")
    (one, _) = json.loads(gnomon("runs", runs, "--json").stdout)
    assert one["step"] == 40
    assert [step for step, _ in one["curve"]] == [20, 40]
    assert one["num_bytes"] > 10_000


def test_damage_is_listed_with_its_reason(runs: Path) -> None:
    (runs / "a" / "recipe.toml").write_text("name = [")
    for record in (runs / "b").rglob("training.json"):
        record.write_text("{")
    (runs / "c").mkdir()
    (runs / "c" / "recipe.toml").write_bytes(b"\xff\xfe")
    (runs / "d").mkdir()
    shutil.copy(runs / "a" / "metrics.jsonl", runs / "d" / "metrics.jsonl")
    found = {run.path.name: run for run in api.list_runs(runs)}
    assert found.keys() == {"a", "b", "c"}
    assert all(run.state == "damaged" and run.problem for run in found.values())
    assert "TOML" in found["a"].problem
    assert found["a"].step == 40  # what could be read is shown all the same
    done = gnomon("runs", runs)
    assert done.exit_code == 0
    assert "training.json" in done.stderr


@pytest.mark.parametrize(
    "line", ["{}", '{"step": 1, "kind": "validation"}', '{"step": 1, "kind": "validation", '
             '"metrics": {"nll": "x"}}', "[1]", "\u2028", ""]
)  # fmt: skip
def test_a_strange_metrics_line_is_passed_over(runs: Path, line: str) -> None:
    with (runs / "a" / "metrics.jsonl").open("a") as file:
        file.write(line + "\n")
    assert [step for step, _ in api.list_runs(runs / "a")[0].curve] == [20, 40]


REPORT = (
    '{"about": {"model": "m", "text": "t", "files": []}, "lines": [], "num_lines": 1, '
    '"scores": [{"name": %s, "value": %s, "signature": %s}]}'
)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"about": {"model": 1}, "scores": []}'),
        REPORT % ('["bleu"]', "1", '"s"'),
        REPORT % ('"bleu"', '"1"', '"s"'),
        REPORT % ('"bleu"', "1", "{}"),
    ],
)
def test_a_damaged_report_is_passed_over(runs: Path, text: str) -> None:
    folder = runs / "a" / "evaluations"
    folder.mkdir()
    (folder / "x.json").write_text(text)
    (run,) = api.list_runs(runs / "a")
    assert run.problem is None
    assert run.evaluations == ()


def test_what_is_no_report_is_passed_over(runs: Path) -> None:
    folder = runs / "a" / "evaluations"
    folder.mkdir()
    (folder / "folder.json").mkdir()
    (folder / "nowhere.json").symlink_to("gone")
    os.mkfifo(folder / "pipe.json")  # whoever reads it waits for ever
    (run,) = api.list_runs(runs / "a")
    assert run.problem is None
    assert run.evaluations == ()


def test_state_of_a_run_that_is_being_written(runs: Path) -> None:
    with RunFolder(runs / "a").lock():
        assert next(run.state for run in api.list_runs(runs)) == "running"
    (runs / "new").mkdir()
    shutil.copy(runs / "a" / "recipe.toml", runs / "new" / "recipe.toml")
    assert api.list_runs(runs / "new")[0].state == "new"


def test_compares(runs: Path) -> None:
    for name in ("a", "b"):
        api.evaluate(runs / name, settings={"resamples": 0}, beam=1)
    done = gnomon("runs", runs / "a", runs / "b")
    assert "training.seed\t1 → 2" in done.stdout
    assert "validation loss" in done.stdout
    assert "(step-00000040 against step-00000040)" in done.stdout
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    (chrf,) = (row for row in rows if row[0] == "chrf")
    assert chrf[3] == "+0.00" and chrf[-1] == "unclear"
    found = json.loads(gnomon("runs", runs / "a", runs / "b", "--json").stdout)
    assert found["differences"] == [["training.seed: 1 → 2"]]
    assert found["curves"].keys() == {"20", "40"}


def test_a_comparison_says_which_keys_a_run_does_not_know(runs: Path) -> None:
    assert "these keys" not in gnomon("runs", runs / "a", runs / "b").stderr
    recipe = runs / "b" / "recipe.toml"
    lines = recipe.read_text().splitlines(keepends=True)
    newer = ("label_smoothing =", "r_drop =", "warmup_steps =")
    recipe.write_text("".join(line for line in lines if not line.startswith(newer)))
    done = gnomon("runs", runs / "a", runs / "b")
    told = "without these keys, so their defaults stand for it: "
    assert f"b was begun by a gnomon {told}objective (label_smoothing, r_drop), " in done.stderr
    assert "schedule.warmup_steps" in done.stderr
    found = json.loads(gnomon("runs", runs / "a", runs / "b", "--json").stdout)
    assert found["unknown"][0] == []
    assert "objective.r_drop" in found["unknown"][1]


def test_an_output_that_is_a_folder_is_named_as_it_was_given(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    done = run_command("runs", runs / "a", "--save-curve", folder)
    assert done.returncode == 2
    assert f"Is a directory: '{folder}'" in done.stderr.decode()
    assert "mend: " in done.stderr.decode()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_runs_evaluated_on_other_text_are_not_tested(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("12\t21\n345\t543\n")
    api.evaluate(runs / "a", settings={"resamples": 0})
    api.evaluate(runs / "b", settings={"resamples": 0}, data=tmp_path / "one.tsv")
    assert api.compare_runs([runs / "a", runs / "b"]).scores == (None,)
    assert "not evaluated on the same text" in gnomon("runs", runs / "a", runs / "b").stderr


def test_a_curve_is_saved_and_runs_are_held_against_it(runs: Path, tmp_path: Path) -> None:
    api.evaluate(runs / "a", settings={"resamples": 0})
    curve = tmp_path / "digits.curve.json"
    assert gnomon("runs", runs / "a", runs / "b", "--save-curve", curve).exit_code == 0
    saved = json.loads(curve.read_text())
    assert saved["measured_on"]["seeds"] == [1, 2]
    assert {score["name"] for score in saved["scores"]} >= {"bleu", "chrf"}
    done = gnomon("runs", runs / "a", "--curve", curve)
    assert (done.exit_code, "as expected: 2 of 2" in done.stdout) == (0, True)
    metrics = runs / "b" / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "validation" and line["step"] == 40:
            line["metrics"]["nll"] *= 1.2
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = gnomon("runs", runs / "b", "--curve", curve)
    assert done.exit_code == 1
    assert "above the band from step 40" in done.stdout
    recipe = runs / "a" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("peak = 0.005", "peak = 0.004"))
    done = gnomon("runs", runs / "a", "--curve", curve)
    assert "schedule.peak: 0.005 → 0.004" in done.stdout
    assert "no expected curve" in gnomon("runs", runs / "a", "--expected").stdout


def test_plot(runs: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        with pytest.raises(RunError, match=r"gnomon\[plot\]"):
            gnomon("runs", runs, "--plot", tmp_path / "x.svg")
        return
    gnomon("runs", runs, "--plot", tmp_path / "x.svg")
    assert "validation loss" in (tmp_path / "x.svg").read_text()
    gnomon("runs", runs / "a", runs / "b", "--plot", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(RunError, match=r"\.png"):
        gnomon("runs", runs, "--plot", tmp_path / "x.docx")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["absent"], "absent"),
        (["absent", "absent"], "absent"),
        (["RUN", "--curve", "absent"], "absent"),
        (["RUN", "--save-curve", "x", "--tolerance", "3"], "share"),
        (["RUN", "--save-curve", "x", "--plot", "x.png", "--json"], "--plot, --json"),
        (["RUN", "--expected", "--plot", "x.png"], "--plot"),
        (["RUN", "--tolerance", "0.1"], "--save-curve"),
    ],
)
def test_mistakes(runs: Path, arguments: list[str], named: str) -> None:
    real = [str(runs / "a") if one == "RUN" else one for one in arguments]
    with pytest.raises(GnomonError, match=named):
        gnomon("runs", *real)


def test_a_loss_that_is_no_number_is_null_in_json(runs: Path) -> None:
    with (runs / "a" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 60, "kind": "validation", "metrics": {"nll": NaN}}\n')
    done = gnomon("runs", str(runs / "a"), "--json")
    (run,) = json.loads(done.stdout, parse_constant=pytest.fail)
    assert run["curve"][-1] == [60, None]
