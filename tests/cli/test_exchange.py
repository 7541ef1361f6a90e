"""`gnomon import`, `embed` and `export` from a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import run_command
from interop.zoo import save


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exchange")
    save("bert_base", folder / "theirs")
    done = run_command("import", "theirs", "ours", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"ours\n"
    assert b"bert" in done.stderr
    return folder


def test_one_vector_for_each_line(place: Path) -> None:
    text = b"w1 w2\n\nw3\tw4\n\xff w5"
    done = run_command("embed", "ours", cwd=place, text=text)
    assert done.returncode == 0, done.stderr
    vectors = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(vector) for vector in vectors] == [16] * 4
    done = run_command("embed", "ours", "--npy", "v.npy", cwd=place, text=text)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(place / "v.npy"), np.array(vectors, np.float32))
    done = run_command("embed", "ours", "--normalise", "--pooling", "first", cwd=place, text=text)
    others = np.array([json.loads(line) for line in done.stdout.splitlines()])
    np.testing.assert_allclose(np.linalg.norm(others, axis=1), 1, atol=1e-6)


def test_a_line_that_is_too_long_is_named(place: Path) -> None:
    text = ("w1\n" + "w1 " * 40 + "\n").encode()
    done = run_command("embed", "ours", cwd=place, text=text)
    assert done.returncode == 2
    assert b"text 2 has 42" in done.stderr
    done = run_command("embed", "ours", "--truncate", cwd=place, text=text)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)


def test_what_is_asked_of_the_wrong_model(place: Path) -> None:
    done = run_command("translate", "ours", cwd=place, text=b"w1\n")
    assert done.returncode == 2
    assert b"gnomon embed ours" in done.stderr
    done = run_command("import", "theirs", "ours", cwd=place)
    assert (done.returncode, b"ours exists" in done.stderr) == (2, True)
    done = run_command("import", "nowhere/at/all", "new", cwd=place)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_export_is_read_back(place: Path) -> None:
    done = run_command("export", "ours", "--to", "huggingface", "back", cwd=place)
    assert done.returncode == 0, done.stderr
    assert b"read back and equal" in done.stderr
    before, after = (place / name / "config.json" for name in ("theirs", "back"))
    assert json.loads(before.read_text()) == json.loads(after.read_text())


def test_a_classifier_and_what_is_below_it(place: Path) -> None:
    save("distilbert_texts", place / "labelled", labels={0: "good", 1: "bad"})
    done = run_command("import", "labelled", "classifier", cwd=place)
    assert done.returncode == 0, done.stderr
    assert b"task classification" in done.stderr
    done = run_command("classify", "classifier", cwd=place, text=b"w1 w2\nw3\n")
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.decode().split()) <= {"good", "bad"}
    assert len(done.stdout.splitlines()) == 2
    done = run_command("import", "labelled", "below", "--no-head", cwd=place)
    assert b"task encoder" in done.stderr
    done = run_command("import", "labelled", "two", "--pairs", cwd=place)
    assert done.returncode == 0, done.stderr
    done = run_command("classify", "two", cwd=place, text=b"w1 w2\tw3\n")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    done = run_command("import", "theirs", "no", "--pairs", cwd=place)
    assert (done.returncode, b"taken in as a classifier" in done.stderr) == (2, True)
