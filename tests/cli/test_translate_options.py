"""The options of `gnomon translate` that steer the search, as a user types them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from command_line import run_command
from digits import TrainedRun


def translate(*arguments: str | Path, text: str = "12345\n678\n") -> subprocess.CompletedProcess:
    return run_command("translate", *arguments, text=text.encode())


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--beam", "0"], "beam must be at least 1"),
        (["--batch-tokens", "0"], "--batch-tokens"),
        (["--batch-tokens", "-5"], "--batch-tokens"),
        (["--sample", "--temperature", "0"], "temperature must be above 0"),
        (["--no-repeat-ngram", "-1"], "no_repeat_ngram"),
        (["--terminology", "nowhere.tsv"], "nowhere.tsv"),
        (["--ignore-case"], "--terminology"),
    ],
)
def test_a_slip_is_told_before_the_model_is_looked_for(options: list[str], named: str) -> None:
    done = translate("no-such-model", *options)
    assert done.returncode == 2
    assert named in done.stderr.decode()
    assert "no-such-model" not in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_all_files_steer_the_output(trained_run: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "prefixes").write_text("9 \n\n")
    (tmp_path / "required").write_text("\n7 7\t4 4\n")
    (tmp_path / "banned").write_text("5\n\n")
    (tmp_path / "terms").write_text("678\t0 0\n")
    plain = translate(trained_run.path, "--beam", "4")
    done = translate(
        trained_run.path,
        *("--prefix-file", tmp_path / "prefixes", "--required", tmp_path / "required"),
        *("--banned", tmp_path / "banned", "--terminology", tmp_path / "terms"),
        *("--with", trained_run.path, "--beam", "4", "--json"),
    )
    assert done.returncode == 0, done.stderr
    first, second = (json.loads(line)["text"] for line in done.stdout.splitlines())
    assert plain.stdout.decode().splitlines() != [first, second]
    assert first.startswith("9")
    assert "5" not in first + second
    assert all(phrase in second for phrase in ("7 7", "4 4", "0 0"))


def test_samples_follow_the_seed_and_truncation_is_counted(trained_run: TrainedRun) -> None:
    options = ["--sample", "--temperature", "2", "--nbest", "3", "--json"]
    one, same, other = (
        translate(trained_run.path, *options, "--seed", seed).stdout for seed in "112"
    )
    assert one == same != other
    cut = translate(
        trained_run.path, "--json", "--max-length-factor", "0", "--max-length-offset", "1"
    )
    assert [json.loads(line)["truncated"] for line in cut.stdout.splitlines()] == [True, True]
    assert "2 of 2 outputs reached their length limit" in cut.stderr.decode()


@pytest.mark.parametrize(("text", "which"), [("1\n2\n3\n", "fewer"), ("1\n", "more")])
def test_a_file_beside_the_input_has_its_lines(
    trained_run: TrainedRun, tmp_path: Path, text: str, which: str
) -> None:
    (tmp_path / "prefixes").write_text("1\n\n")
    done = translate(trained_run.path, "--prefix-file", tmp_path / "prefixes", text=text)
    assert done.returncode == 2
    assert f"{which} lines than the input" in done.stderr.decode()


def test_another_vocabulary_is_refused_by_evaluate_and_translate(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    from gnomon import load
    from gnomon.tasks import Translator, save_translator
    from gnomon.text import Tokenizer, TokenizerConfig, TokenizerPair

    known = load(trained_run.path)
    config = TokenizerConfig(vocab_size=known.tokenizers.target.vocab_size, kind="bpe")
    other = Tokenizer.train(["abc abd abe " * 9, *"abcdefghijklm"] * 9, config)
    if other.vocab_size != known.tokenizers.target.vocab_size:
        pytest.skip("the small text gave another size, which another rule refuses")
    save_translator(Translator(known.model, TokenizerPair(other, other), known.search), tmp_path)
    done = translate(trained_run.path, "--with", tmp_path)
    assert done.returncode == 2
    assert "one vocabulary" in done.stderr.decode()


def test_many_lines_with_the_same_to_say_are_counted_after_the_first_ten(
    trained_run: TrainedRun,
) -> None:
    limits = ("--max-length-factor", "0", "--max-length-offset", "1", "--min-length", "1")
    done = translate(trained_run.path, *limits, text="12345\n" * 25)
    errors = " ".join(done.stderr.decode().split())
    assert done.stdout.count(b"\n") == 25
    assert errors.count("may be cut") == 10
    assert "25 of 25 outputs reached their length limit; only the first 10 are named" in errors
