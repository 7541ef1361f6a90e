"""The command line as a user types it: exit codes, one line out per line in, no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import run_command as gnomon
from digits import TrainedRun, write_digits


def test_help_names_the_verbs_and_imports_nothing_heavy(tmp_path: Path) -> None:
    done = gnomon("--help", cwd=tmp_path)
    assert done.returncode == 0
    for verb in ("quickstart", "prepare", "train", "evaluate", "translate", "recipe"):
        assert verb in done.stdout.decode()
    probe = (
        "import sys, gnomon, gnomon.cli.app; "
        "print([m for m in ('torch', 'numpy', 'pydantic', 'tokenizers') if m in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True)
    assert loaded.stdout.strip() == b"[]"


def test_version(tmp_path: Path) -> None:
    assert gnomon("--version", cwd=tmp_path).stdout.startswith(b"gnomon 0.")


def test_translate_keeps_every_line(trained_run: TrainedRun, tmp_path: Path) -> None:
    lines = ["12345", "", "   ", "987", "\u2028", "é😀", "1" * 30, "x\ty", "</s>"]
    text = "\n".join(lines).encode() + b"\n"
    done = gnomon("translate", trained_run.path, cwd=tmp_path, text=text)
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode().split("\n")
    assert len(out) == len(lines) + 1
    assert out[-1] == ""
    assert out[1] == out[2] == ""


@pytest.mark.parametrize("text", [b"", b"12\n", b"12", b"\n\n", b"\xef\xbb\xbf12\r\n34\r\n"])
def test_translate_has_as_many_lines_as_its_input(
    trained_run: TrainedRun, tmp_path: Path, text: bytes
) -> None:
    expected = len(text.removesuffix(b"\n").split(b"\n")) if text else 0
    done = gnomon("translate", trained_run.path, cwd=tmp_path, text=text)
    assert done.stdout.count(b"\n") == expected


def test_translate_replaces_what_is_not_text_and_says_so(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    done = gnomon("translate", trained_run.path, cwd=tmp_path, text=b"12\n\xff\x00\n34\n")
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 3
    assert b"line 2" in done.stderr


def test_a_closed_pipe_ends_quietly(trained_run: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("12\n" * 5000)
    command = f"{sys.executable} -m gnomon translate {trained_run.path} -i in.txt | head -1"
    shell = ["bash", "-c", f"set -o pipefail; {command}"]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 141
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1


def test_asked_to_end_it_leaves_no_half_file(trained_run: TrainedRun, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gnomon", "translate", str(trained_run.path), "-o", "out.txt"]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"12\n")
    process.stdin.flush()
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(".out.txt.*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.glob(".out.txt.*"))  # it waits for text
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    process.stdin.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["recipe show classifier --expanded", "recipe list"])
def test_results_that_nobody_reads_are_no_failed_check(verb: str, tmp_path: Path) -> None:
    shell = ["bash", "-c", f"{sys.executable} -m gnomon {verb} | true; exit ${{PIPESTATUS[0]}}"]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_json_lines_tell_all(trained_run: TrainedRun, tmp_path: Path) -> None:
    done = gnomon(
        "translate", trained_run.path, "--json", "--nbest", "2", cwd=tmp_path, text=b"123\nhello\n"
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert len(first["alternatives"]) == 1
    assert first["score"] >= first["alternatives"][0]["score"]
    assert (first["far"], second["far"]) == (False, True)
    assert b"line 2 is far" in done.stderr


def test_output_file_appears_whole_or_not_at_all(trained_run: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("12\n34\n")
    done = gnomon("translate", trained_run.path, "-i", "in.txt", "-o", "out.txt", cwd=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "out.txt").read_text().count("\n") == 2
    done = gnomon("translate", trained_run.path, "-i", "none.txt", "-o", "no.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_evaluate_prints_scores_with_signatures_and_stores_them(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    before = set((trained_run.path / "evaluations").glob("*.json"))
    done = gnomon("evaluate", trained_run.path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert [row[0] for row in rows] == ["bleu", "chrf", "exact_match", "perplexity"]
    assert "version:" in rows[0][2]
    stored = list(set((trained_run.path / "evaluations").glob("*.json")) - before)
    assert len(stored) == 1
    scores = {s["name"]: s["value"] for s in json.loads(stored[0].read_text())["scores"]}
    assert f"{scores['bleu']:.4f}" == rows[0][1]


def _mistakes(run: TrainedRun, folder: Path) -> dict[str, tuple[list[str | Path], str]]:
    (folder / "short.txt").write_text("1\n2\n")
    (folder / "long.txt").write_text("1\n2\n3\n")
    (folder / "latin1.txt").write_bytes(b"caf\xe9\n1\n2\n")
    (folder / "empty.txt").write_text("")
    return {
        "no such model": (["translate", "absent"], "does not exist"),
        "not a model": (["translate", folder], "a model is a run"),
        "no such checkpoint": (["translate", run.path, "--checkpoint", "step-7"], "step-40"),
        "nbest without json": (["translate", run.path, "--nbest", "3"], "--json"),
        "bad penalty": (["translate", run.path, "--length-penalty", "x"], "length_penalty"),
        "no such preset": (["train", "absent"], "presets:"),
        "no text": (["train", "tiny"], "--src"),
        "one side": (["train", "tiny", "--src", "short.txt"], "target"),
        "no such file": (["train", "tiny", "--data", "absent.tsv"], "absent.tsv"),
        "unequal": (["train", "tiny", "--src", "short.txt", "--tgt", "long.txt"], "same number"),
        "latin1": (["train", "tiny", "--src", "latin1.txt", "--tgt", "long.txt"], "UTF-8"),
        "empty": (["train", "tiny", "--src", "empty.txt", "--tgt", "empty.txt"], "empty"),
        "a folder": (["train", "tiny", "--data", folder], "folder"),
        "unknown key": (["train", "tiny", "--set", "model.widht=3"], "no key 'widht'"),
        "bad override": (["train", "tiny", "--set", "model.d_model"], "table.key=value"),
        "bad device": (["translate", run.path, "--device", "abacus"], "abacus"),
        "unwritable output": (["translate", run.path, "-o", "/proc/nowhere/x"], "/proc"),
        "no reference": (["evaluate", run.path, "--src", "short.txt"], "reference"),
    }


def test_every_mistake_gets_rule_value_and_mend(trained_run: TrainedRun, tmp_path: Path) -> None:
    for name, (arguments, expected) in _mistakes(trained_run, tmp_path).items():
        done = gnomon(*arguments, cwd=tmp_path, text=b"1\n")
        message = done.stderr.decode()
        assert done.returncode == 2, (name, message)
        assert expected in message, (name, message)
        assert "Traceback" not in message, (name, message)
        assert done.stdout == b"", name


def test_train_stops_at_sigterm_continues_and_is_then_finished(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    data = write_digits(tmp_path)
    command = ["train", trained_run.recipe, "--data", data, "--run", "run"]
    command += ["--set", "training.max_steps=120"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gnomon", *map(str, command)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        env=os.environ,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("run/checkpoints/step-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, message = process.communicate(timeout=120)
    assert process.returncode == 143, message
    assert b"Traceback" not in message

    done = gnomon(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"continuing after step" in done.stderr
    again = gnomon(*command, cwd=tmp_path)
    assert again.returncode == 0
    assert b"finished" in again.stderr

    other = gnomon(*command[:-1], "training.max_steps=121", cwd=tmp_path)
    assert other.returncode == 2
    assert b"training.max_steps: 120" in other.stderr
    assert b"--from" in other.stderr

    tuned = gnomon(
        *("train", trained_run.recipe, "--data", data, "--run", "tuned", "--from", "run"),
        cwd=tmp_path,
    )
    assert tuned.returncode == 0, tuned.stderr
    same = (tmp_path / "run" / "checkpoints" / "step-00000120" / "tokenizer.json").read_bytes()
    kept = (tmp_path / "tuned" / "checkpoints" / "step-00000040" / "tokenizer.json").read_bytes()
    assert same == kept


def test_prepare_says_what_it_leaves_out(trained_run: TrainedRun, tmp_path: Path) -> None:
    data = write_digits(tmp_path)
    with data.open("a") as file:
        file.write("\t5\n" + "1" * 300 + "\t1\n")
    done = gnomon("prepare", trained_run.recipe, "--data", data, "--run", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    message = " ".join(done.stderr.decode().split())
    assert "empty side: lines 401" in message
    assert "lines 402" in message
    assert not (tmp_path / "run").exists()


def test_recipe_verbs(tmp_path: Path) -> None:
    listed = gnomon("recipe", "list", cwd=tmp_path).stdout.decode()
    assert "vaswani-base" in listed
    shown = gnomon("recipe", "show", "tiny", cwd=tmp_path).stdout
    (tmp_path / "my.toml").write_bytes(shown)
    expanded = gnomon("recipe", "show", "my.toml", "--expanded", cwd=tmp_path).stdout
    assert b"label_smoothing = 0.1" in expanded
    json.loads(gnomon("recipe", "schema", cwd=tmp_path).stdout)


def test_blanks_around_a_line_stay_around_its_translation(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    lines = ["12", "  12", "12\t ", "\u00a012\u3000", "\x0b12\u2028", "   "]
    text = "\n".join(lines).encode() + b"\n"
    out = gnomon("translate", trained_run.path, cwd=tmp_path, text=text).stdout.decode()
    plain, *spaced = out.split("\n")[:-1]
    assert plain.strip()
    assert spaced == [f"  {plain}", f"{plain}\t ", f"\u00a0{plain}\u3000", f" {plain} ", ""]
    done = gnomon("translate", trained_run.path, "--no-keep-space", cwd=tmp_path, text=text)
    assert done.stdout.decode().split("\n")[1] == done.stdout.decode().split("\n")[1].strip()
    done = gnomon(
        "translate", trained_run.path, "--json", "--nbest", "2", cwd=tmp_path, text=b"  12\n"
    )
    (found,) = map(json.loads, done.stdout.splitlines())
    assert found["text"] == f"  {plain}"
    assert all(other["text"].startswith("  ") for other in found["alternatives"])


def test_prepare_dry_run_looks_and_writes_nothing(trained_run: TrainedRun, tmp_path: Path) -> None:
    data = write_digits(tmp_path)
    with data.open("a") as file:
        file.write("\t5\n" + "12\u2028[b]34[/b]\t4321\n")
    command = ["prepare", trained_run.recipe, "--data", data, "--run", "run", "--dry-run"]
    command += ["--set", "data.holdout=0"]
    done = gnomon(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    message = " ".join(done.stderr.decode().split())
    assert "401 of 402 training pairs would be kept, 1 of them repaired" in message
    assert "402:" in message and "empty side" in message
    assert [path.name for path in tmp_path.iterdir()] == [data.name]
    assert done.stdout == b""

    done = gnomon(*command, "--json", "--report", "found.tsv", cwd=tmp_path)
    found = json.loads(done.stdout)["train"]
    assert (found["num_pairs"], found["num_kept"], found["num_repaired"]) == (402, 401, 1)
    assert found["findings"]["empty_side"]["lines"] == [401]
    assert found["excerpts"]["401"] == ["", "5"]
    assert found["excerpts"]["402"] == ["12\ufffd[b]34[/b]", "4321"]
    rows = [row.split("\t") for row in (tmp_path / "found.tsv").read_text().splitlines()]
    assert rows[0] == ["line", "reason", "action", "detail"]
    assert ["401", "empty_side", "drop", "source"] in rows
    assert ["402", "control_characters", "repair", "source: U+2028"] in rows
    seen = {(line, reason) for line, reason, *_ in rows[1:]}  # a row for each side that shows it
    assert len(seen) == sum(finding["count"] for finding in found["findings"].values())
    assert gnomon("prepare", "tiny", "--report", "x.tsv", cwd=tmp_path).returncode == 2
