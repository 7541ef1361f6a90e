"""The commands of a classifier, from a file of labelled texts to labels, line by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run_command


def gnomon(*arguments: str, cwd: Path, text: bytes = b"") -> tuple[int, str, str]:
    done = run_command(*arguments, cwd=cwd, text=text)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


SMALL = [
    "--set=tokenizer.vocab_size=280",
    "--set=model.d_model=32",
    "--set=model.num_encoder_layers=1",
    "--set=training.max_steps=60",
    "--set=training.validate_every=30",
    "--set=training.precision=fp32",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classify")
    rows = [
        f'"{word}, {number}",{label}'
        for number in range(100)
        for word, label in (("good", "yes"), ("fine", "yes"), ("bad", "no"))
    ]
    (folder / "train.csv").write_text("review,verdict\n" + "\n".join(rows) + "\n")
    code, _, errors = gnomon(
        *("train", "classifier", "--data", "train.csv", "--run", "run", *SMALL),
        *("--set=data.text=review", "--set=data.label=verdict"),
        cwd=folder,
    )
    assert code == 0, errors
    assert "gnomon classify run < input.txt" in errors
    return folder


def test_one_line_out_for_each_line_in(folder: Path) -> None:
    text = b"good, 7\n\nbad\xff, 9\nfine \xe2\x80\xa8 3"
    code, output, errors = gnomon("classify", "run", cwd=folder, text=text)
    assert code == 0
    labels = output.splitlines()
    assert (labels[0], labels[2], len(labels)) == ("yes", "no", 4)
    assert "1 invalid UTF-8 sequences" in errors
    code, output, _ = gnomon("classify", "run", "--json", cwd=folder, text=b"good, 1\n")
    found = json.loads(output)
    assert found["label"] == "yes"
    assert found["probabilities"]["yes"] == found["confidence"] > 0.5


def test_long_lines_are_told(folder: Path) -> None:
    code, output, errors = gnomon("classify", "run", cwd=folder, text=b"good\n" + b"bad " * 500)
    assert (code, output.count("\n")) == (0, 2)
    assert "line 2: " in errors
    assert "1 of 2 texts are longer than the model reads" in errors


def test_a_picture_that_cannot_be_drawn_is_told_before_the_evaluation(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluated(*_: object, **__: object) -> None:
        raise AssertionError("work was done")

    monkeypatch.setattr("gnomon.api.evaluate_classifier", evaluated)
    code, _, errors = gnomon("evaluate", "run", "--picture", "c.bmp", cwd=folder)
    assert code == 2
    assert "a plot is a .png, .svg or .pdf file" in errors


def test_evaluate_shows_scores_labels_and_a_picture(folder: Path) -> None:
    code, output, errors = gnomon("evaluate", "run", "--picture", "c.svg", cwd=folder)
    assert code == 0, errors
    assert output.startswith("accuracy\t")
    assert "# by label" in output
    assert "# beside: model\taccuracy" in output
    assert "# rows: what it is" in output
    assert (folder / "c.svg").read_text().lstrip().startswith("<?xml")
    code, output, _ = gnomon(
        *("evaluate", "run", "--data", "train.csv", "--against", "run", "--json"), cwd=folder
    )
    report = json.loads(output)
    assert report["num_lines"] == 300
    assert report["comparisons"]["run"][0]["verdict"] == "unclear"
    code, output, _ = gnomon("runs", ".", cwd=folder)
    assert code == 0
    assert "accuracy" in output
    code, output, _ = gnomon("runs", "run", "run", cwd=folder)
    assert code == 0
    assert "unclear" in output


def test_columns_by_number(folder: Path) -> None:
    rows = "".join(
        f"{'yes' if n % 2 else 'no'}\t{'good' if n % 2 else 'bad'} {n}\n" for n in range(60)
    )
    (folder / "plain.tsv").write_text(rows)
    code, _, errors = gnomon(
        *("train", "classifier", "--data", "plain.tsv", "--run", "numbers", *SMALL),
        *("--set", "data.text=2", "--set", "data.label=1", "--set", "training.max_steps=3"),
        cwd=folder,
    )
    assert code == 0, errors
    assert gnomon("evaluate", "numbers", cwd=folder)[0] == 0
    assert gnomon("evaluate", "numbers", "--data", "plain.tsv", cwd=folder)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "run", "--beam", "3"], "a classifier beside --beam"),
        (["evaluate", "run", "--metrics", "bleu"], "metrics are among accuracy"),
        (["evaluate", "run", "--text", "body"], "no --data beside --text"),
        (["score", "run"], "gnomon classify run"),
        (["evaluate", "run", "--data", "train.csv", "--label", "nothing"], "no column nothing"),
        (["translate", "run"], "gnomon classify run"),
        (["classify", "run", "--threshold", "0.5"], "threshold"),
        (["train", "classifier", "--src", "a", "--tgt", "b"], "give --data FILE"),
        (["train", "classifier"], "labelled text to train on must be given"),
        (["train", "classifier", "--set", "decoding.beam=3"], "no key 'decoding'"),
        (["train", "classifier", "--set", "task=poetry"], "'translation', 'classification'"),
    ],
)
def test_mistakes_are_told(folder: Path, arguments: list[str], message: str) -> None:
    code, _, errors = gnomon(*arguments, cwd=folder, text=b"a\n")
    assert code == 2
    assert message in " ".join(errors.split())
    assert "Traceback" not in errors


def test_labels_with_commas_are_told_apart_in_json(folder: Path) -> None:
    rows = [
        {"text": f"{word} {number}", "label": [label]}
        for number in range(20)
        for word, label in (("good", "nice, cheap"), ("bad", "dear"))
    ]
    (folder / "commas.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, errors = gnomon(
        *("train", "classifier", "--data", "commas.jsonl", "--run", "commas", *SMALL),
        *("--set=data.labels_are=multi", "--set=training.max_steps=2"),
        cwd=folder,
    )
    assert code == 0, errors
    code, output, errors = gnomon("classify", "commas", cwd=folder, text=b"good\n")
    assert (code, output) == (2, "")
    assert "nice, cheap" in errors and "--json" in errors
    code, output, _ = gnomon("classify", "commas", "--json", cwd=folder, text=b"good\n")
    assert code == 0
    assert set(json.loads(output)["probabilities"]) == {"nice, cheap", "dear"}
