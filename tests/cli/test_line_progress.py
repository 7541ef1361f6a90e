"""How far a verb is: on standard error, at a terminal or when asked for, never in the results."""

from __future__ import annotations

import gzip
import io
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

import gnomon
from command_line import run_command
from digits import TrainedRun
from gnomon.cli import line_progress
from gnomon.cli.line_flow import line_flow
from gnomon.cli.line_progress import LineProgress, figures_of, lines_of


@pytest.fixture
def pairs(trained_run: TrainedRun, tmp_path: Path) -> Path:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{one}\t{one[::-1]}\n" for one in trained_run.sources[:30]))
    return file


def test_figures_are_lines_speed_and_the_time_left() -> None:
    assert figures_of(0, 100, 5.0) == "0 of 100 lines"
    assert figures_of(1000, 4000, 10.0) == "1,000 of 4,000 lines, 100.0 lines/s, 0:00:30 left"
    assert figures_of(1000, None, 10.0) == "1,000 lines, 100.0 lines/s"


def test_lines_are_counted_where_they_can_be_read_again(tmp_path: Path) -> None:
    file, packed = tmp_path / "a.txt", tmp_path / "a.gz"
    file.write_bytes(b"one\ntwo\nthree")
    packed.write_bytes(gzip.compress(b"one\n\n"))
    assert (lines_of(file), lines_of(packed)) == (3, 2)
    for path, count in ((file, 3), (packed, 2)):
        with path.open("rb") as stream:
            assert lines_of(stream) == count
            assert stream.read() == path.read_bytes()  # it is still all there
    end, other = os.pipe()
    with os.fdopen(end, "rb") as stream:
        os.close(other)
        assert lines_of(stream) is None
    assert lines_of(io.BytesIO(b"one\n")) is None  # type: ignore[arg-type]


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=120)
    monkeypatch.setattr(line_progress, "console", lambda: console)
    return drawn


def test_a_bar_is_drawn_at_a_terminal_that_shows_no_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = at_a_terminal(monkeypatch)
    with LineProgress(None, prints=True) as shown:
        shown.begin("translating", 40)(10)
        shown.begin("perplexity", 40)(20.5)
    assert "perplexity" in drawn.getvalue()
    assert "20 of 40 lines" in drawn.getvalue()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert LineProgress(None, prints=False).shown
    assert not LineProgress(None, prints=True).shown
    assert not LineProgress(False, prints=False).shown


def test_elsewhere_lines_are_printed_if_asked_for_and_not_too_often(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for wanted in (None, False):
        monkeypatch.setattr(line_progress, "EVERY", 0.0)
        with LineProgress(wanted, prints=True) as shown:
            shown.begin("scoring", 40)(10)
        assert capsys.readouterr().err == ""
    with LineProgress(True, prints=True) as shown:
        shown.begin("scoring", 40)(10)
        monkeypatch.setattr(line_progress, "EVERY", 60.0)
        shown.begin("scoring", 40)(20)
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"scoring: 10 of 40 lines, [\d,.]+ lines/s, \d+:\d\d:\d\d left", line)


@pytest.mark.parametrize("verb", ["translate", "evaluate", "score", "align"])
def test_verbs_tell_how_far_they_are_and_results_stay_the_same(
    verb: str, trained_run: TrainedRun, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_progress, "EVERY", 0.0)
    arguments = [verb, trained_run.path / "checkpoints" / "step-00000040", "--batch-tokens", "64"]
    given = ["--input", pairs] if verb == "translate" else ["--data", pairs]
    if verb == "evaluate":
        given += ["--metrics", "chrf", "--against", pairs]
    plain = run_command(*arguments, *given)
    told = run_command(*arguments, *given, "--progress")
    assert (plain.returncode, told.returncode) == (0, 0), told.stderr.decode()
    assert told.stdout == plain.stdout
    assert b"lines/s" not in plain.stderr
    seen = re.findall(rb"([a-z]+): ([\d,]+) of 30 lines", told.stderr)
    counts = [int(count) for what, count in seen if what == seen[0][0]]
    assert len(counts) > 1  # batch by batch, not only at the end
    assert counts == sorted(counts)
    assert counts[-1] == 30
    if verb == "evaluate":
        assert {what for what, _ in seen} == {b"translating", b"perplexity"}


def test_every_text_is_told_once_however_it_is_divided(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    told: list[float] = []
    texts = ["1 2. 3 4. 5", "", "12", "34. 56. 78. 90."]
    found = translator.translate(texts, split="always", batch_tokens=8, progress=told.append)
    assert sum(told) == 4
    assert max(one.num_parts for one in found) > 2
    told.clear()
    translator.score(["12", "", "3" * 30], ["21", "", "3" * 30], progress=told.append)
    assert sum(told) == 3
    told.clear()
    translator.align(["12", "", "3"], ["21", "", "3"], progress=told.append)
    assert sum(told) == 3


def test_a_real_terminal_gets_the_bar_and_a_file_the_results(
    trained_run: TrainedRun, pairs: Path, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def listen() -> None:
        try:
            while block := os.read(ours, 4096):
                seen.append(block)
        except OSError:  # the other end was closed
            return

    listener = threading.Thread(target=listen)
    listener.start()
    out = tmp_path / "out.txt"
    command = [sys.executable, "-m", "gnomon", "translate", str(trained_run.path)]
    with pairs.open("rb") as text, out.open("wb") as file:
        subprocess.run(command, stdin=text, stdout=file, stderr=theirs, check=True, timeout=240)
    os.close(theirs)
    listener.join(30)
    os.close(ours)
    assert b"of 30 lines" in b"".join(seen)
    assert len(out.read_bytes().splitlines()) == 30
    assert b"lines" not in out.read_bytes()


def test_what_is_typed_is_answered_line_by_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"one\ntwo\n")), "utf-8")
    monkeypatch.setattr(typed, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", typed)
    with line_flow(None, None, size=1024, doing="labelling", progress=None) as flow:
        for first, chunk in flow:
            flow.write(f"{first} {chunk}")
    out, err = capfd.readouterr()
    assert out == "1 ['one']\n2 ['two']\n"
    assert "Ctrl-D ends" in err
