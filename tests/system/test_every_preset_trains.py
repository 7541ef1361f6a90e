"""Every preset, made small, trains with validation, is saved, loaded and used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gnomon
from digits import write_digits
from gnomon import api
from gnomon.recipes import preset_names, recipe_kind

SMALL = [
    "model.d_model=32",
    "model.num_encoder_layers=2",
    "model.num_decoder_layers=2",
    "model.attention.num_heads=4",
    "model.feedforward.size=48",
    "tokenizer.vocab_size=280",
    "training.tokens_per_batch=400",
    "training.max_steps=6",
    "training.validate_every=3",
    "training.checkpoint_every=3",
]


def small_for(task: str) -> list[str]:
    """A detector has the network and the vocabulary of what it begins with."""
    if task == "replaced_tokens":
        return [each for each in SMALL if each.startswith("training.")]
    return SMALL


TEXTS = ["123", "4567890", ""]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", preset_names())
def test_preset(tmp_path: Path, name: str, precision: str) -> None:
    # Validation runs before further steps: nothing that it caches may break their gradients.
    task = recipe_kind(name)().task  # type: ignore[call-arg]
    text = {
        "translation": write_digits,
        "classification": write_labels,
        "language_model": write_text,
        "masked_lm": write_text,
        "replaced_tokens": write_text,
    }[task](tmp_path, num_pairs=120)
    first = None
    if task == "replaced_tokens":
        first = api.train("encoder", data=text, overrides=SMALL, run=tmp_path / "first").run
    training = api.train(
        name,
        data=text,
        overrides=[*small_for(task), f"training.precision={precision}"],
        run=tmp_path / "run",
        start_from=first,
    )
    assert training.outcome.step == 6
    model = gnomon.load(training.run, checkpoint="last")
    use = {
        "translation": translated,
        "classification": labelled,
        "language_model": continued,
        "masked_lm": embedded,
        "replaced_tokens": judged,
    }[task]
    assert [use(model, [text])[0] for text in TEXTS] == use(model, TEXTS)


def translated(model: Any, texts: list[str]) -> list[str]:
    return [result.text for result in model.translate(texts)]


def labelled(model: Any, texts: list[str]) -> list[str]:
    return [result.labels[0] for result in model.classify(texts)]


def judged(model: Any, texts: list[str]) -> list[tuple[str, ...]]:
    return [result.labels for result in model.classify(texts)]


def write_text(folder: Path, *, num_pairs: int) -> Path:
    """Digit strings, one a line."""
    path = folder / "digits.txt"
    path.write_text(write_digits(folder, num_pairs=num_pairs).read_text().replace("\t", "\n"))
    return path


def continued(model: Any, texts: list[str]) -> list[str]:
    return [result.text for result in model.generate(texts, max_tokens=8)]


def embedded(model: Any, texts: list[str]) -> list[list[float]]:
    return [[round(float(x), 3) for x in vector] for vector in model.embed(texts)]


def write_labels(folder: Path, *, num_pairs: int) -> Path:
    """Digit strings with the parity of the last one."""
    lines = write_digits(folder, num_pairs=num_pairs).read_text().splitlines()
    rows = [f"{line.split()[0]}\t{'odd' if int(line[0]) % 2 else 'even'}" for line in lines]
    path = folder / "labels.tsv"
    path.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("kind", ["ema", "last"])
def test_a_deep_encoder_with_everything_that_regularises(tmp_path: Path, kind: str) -> None:
    everything = ["objective.r_drop=5.0", "model.layer_drop=0.2", f"averaging.kind={kind}"]
    everything += ["training.accumulate=2", "model.num_encoder_layers=6"]
    training = api.train(
        "deep-shallow",
        data=write_digits(tmp_path, num_pairs=120),
        overrides=[*SMALL, *everything],
        run=tmp_path / "run",
    )
    translator = gnomon.load(training.run)
    assert translator.model.config.layer_drop == 0.2
    texts = ["123", "4567890", ""]
    together = [result.text for result in translator.translate(texts)]
    assert [translator.translate([text])[0].text for text in texts] == together
