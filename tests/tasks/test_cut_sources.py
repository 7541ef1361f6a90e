"""A model of titles learns from the beginnings of long documents, and says what it left unread."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gnomon
from gnomon import api
from gnomon.cli.app import app
from gnomon.tasks import Translator
from gnomon.tasks.likelihood import summed_nll
from small_training import RECIPE

LIMIT = 20  # tokens, EOS included


def _document(rng: random.Random, size: int) -> str:
    return " ".join(rng.choice("abcdefgh") for _ in range(size))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A finished run, and what it said before its first step."""
    folder = tmp_path_factory.mktemp("titles")
    rng = random.Random(0)
    rows = []
    for number in range(300):
        # Every third document is too long; one title is.
        text = _document(rng, 40 if number % 3 == 0 else 12)
        title = text[:3] if number != 1 else _document(rng, 60)
        rows.append(json.dumps({"document": text, "title": title}) + "\n")
    (folder / "pairs.jsonl").write_text("".join(rows))
    recipe = RECIPE.replace(
        "variants = 3",
        f"max_length = {LIMIT}\non_too_long = 'cut'\n"
        "source_field = 'document'\ntarget_field = 'title'",
    ).replace("bpe_dropout = 0.2", "")
    recipe += "[cleaning]\nmax_length_ratio = 1000\n"
    (folder / "titles.toml").write_text(recipe)
    said: list[str] = []
    training = api.train(
        folder / "titles.toml", data=folder / "pairs.jsonl", run=folder / "run", say=said.append
    )
    assert training.outcome.finished
    return training.run, said


def test_long_sources_are_learned_from_and_told(run: tuple[Path, list[str]]) -> None:
    _, said = run
    (cut,) = [line for line in said if "the end is not read" in line]
    count = int(cut.split()[1])
    assert 80 <= count <= 100  # a third, some of them held out
    (left_out,) = [line for line in said if "are left out, more than" in line]
    assert left_out.startswith("1 training pairs")
    (kept,) = [line for line in said if "target tokens in" in line]
    assert int(kept.split()[-2]) > 250


def test_what_is_beyond_changes_nothing_and_is_told(run: tuple[Path, list[str]]) -> None:
    model = gnomon.load(run[0])
    assert isinstance(model, Translator)
    assert model.cuts_sources
    assert model.longest_source == LIMIT
    start = _document(random.Random(1), LIMIT)
    texts = [start, f"{start} h g f. Ah be. C d e", start[:9]]
    plain, longer, short = model.translate(texts)
    assert (longer.text, longer.score) == (plain.text, plain.score)
    assert longer.num_parts == 1
    assert longer.num_cut > plain.num_cut > 0 == short.num_cut
    assert model.translate(texts[1:2], split="always")[0].num_cut == 0
    assert model.translate(texts[1:2], split="never")[0].num_cut == 0
    losses = [summed_nll(model, [text], ["a b"], 4096) for text in texts]
    assert losses[0] == losses[1] != losses[2]


def test_without_it_long_text_is_divided(run: tuple[Path, list[str]]) -> None:
    model = gnomon.load(run[0])
    assert isinstance(model, Translator)
    model.cuts_sources = False
    (found,) = model.translate([_document(random.Random(1), 60)])
    assert found.num_parts > 1
    assert found.num_cut == 0


def test_the_command_line_tells(run: tuple[Path, list[str]], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(_document(random.Random(2), 50) + "\na b\n")
    arguments = ["translate", str(run[0]), "-i", str(tmp_path / "in.txt"), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert first["num_cut"] > 0 == second["num_cut"]
    assert "line 1 is longer than this model reads" in done.stderr
    assert "1 of 2 lines were read in part" in done.stderr
    scored = CliRunner().invoke(app, ["evaluate", str(run[0]), "--metrics", "rouge", "--json"])
    assert scored.exit_code == 0, scored.output
    report = json.loads(scored.stdout)
    assert report["outputs"]["cut"] > 0
    names = [score["name"] for score in report["scores"]]
    assert names == ["rouge1", "rouge2", "rougeL", "perplexity"]
