"""A two-layer model learns to copy and to sort digit strings, through the command line.

The habit is Sockeye's: a toolkit whose shift, masks, loss, search or resume is wrong cannot do it.
"""

import json
import random
from pathlib import Path

import pytest

from command_line import run_command

RECIPE = """
name = "digits"
[tokenizer]
vocab_size = 280
split_digits = true
[model]
d_model = 64
num_encoder_layers = 2
num_decoder_layers = 2
dropout = 0.0
attention.num_heads = 4
feedforward.size = 128
norm.placement = "pre"
[objective]
label_smoothing = 0.0
[schedule]
kind = "cosine"
peak = 4e-3
warmup_steps = 100
[training]
tokens_per_batch = 1500
max_steps = 1000
validate_every = 500
checkpoint_every = 500
precision = "fp32"
[decoding]
beam = 4
"""


def gnomon(*arguments: str, cwd: Path, text: str = "") -> str:
    done = run_command(*arguments, cwd=cwd, text=text.encode())
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def write_pairs(path: Path, rows: list[str], transform: str) -> None:
    turned = rows if transform == "copy" else ["".join(sorted(row)) for row in rows]
    path.write_text("".join(f"{a}\t{b}\n" for a, b in zip(rows, turned, strict=True)))


@pytest.mark.parametrize("transform", ["copy", "sort"])
def test_learns(tmp_path: Path, transform: str) -> None:
    rng = random.Random(3)
    rows = ["".join(rng.choices("0123456789", k=rng.randint(1, 10))) for _ in range(6000)]
    rows = list(dict.fromkeys(rows))
    train, test = rows[:-200], rows[-200:]
    write_pairs(tmp_path / "train.tsv", train, transform)
    write_pairs(tmp_path / "test.tsv", test, transform)
    (tmp_path / "recipe.toml").write_text(RECIPE)

    gnomon("train", "recipe.toml", "--data", "train.tsv", cwd=tmp_path)

    report = json.loads(
        gnomon("evaluate", "runs/digits", "--data", "test.tsv", "--json", cwd=tmp_path)
    )
    scores = {score["name"]: score["value"] for score in report["scores"]}
    assert scores["perplexity"] <= 1.02, scores
    assert scores["exact_match"] >= 98.0, scores

    # The same lines, in other batches and another order, come out the same.
    text = "".join(f"{row}\n" for row in test)
    backwards = "".join(f"{row}\n" for row in reversed(test))
    together = gnomon("translate", "runs/digits", cwd=tmp_path, text=text)
    in_small_batches = gnomon(
        "translate", "runs/digits", "--batch-tokens", "20", cwd=tmp_path, text=text
    )
    turned = gnomon("translate", "runs/digits", cwd=tmp_path, text=backwards)
    assert in_small_batches == together
    assert turned.splitlines() == together.splitlines()[::-1]
    assert [line["hypothesis"] for line in report["lines"]] == together.splitlines()

    # Where a copied digit comes from is read off the attention. A model that sorts has to look at
    # several places to know the next one, so nothing is asked of it.
    if transform == "sort":
        return
    characters = ("--source-units", "characters", "--target-units", "characters")
    aligned = gnomon("align", "runs/digits", "--data", "test.tsv", *characters, cwd=tmp_path)
    targets = [target for _, target in map(str.split, (tmp_path / "test.tsv").open())]
    links = [
        (source[int(one)], target[int(other)])
        for source, target, line in zip(test, targets, aligned.splitlines(), strict=True)
        for one, other in (link.split("-") for link in line.split())
    ]
    assert len(links) == sum(map(len, targets))
    assert sum(one == other for one, other in links) >= 0.98 * len(links)
