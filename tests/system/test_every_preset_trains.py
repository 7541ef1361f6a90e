"""Every preset, made small, trains with validation, is saved, loaded and translates."""

from __future__ import annotations

from pathlib import Path

import pytest

import gnomon
from digits import write_digits
from gnomon import api
from gnomon.recipes import preset_names

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


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", preset_names())
def test_preset(tmp_path: Path, name: str, precision: str) -> None:
    # Validation runs before further steps: nothing that it caches may break their gradients.
    training = api.train(
        name,
        data=write_digits(tmp_path, num_pairs=120),
        overrides=[*SMALL, f"training.precision={precision}"],
        run=tmp_path / "run",
    )
    assert training.outcome.step == 6
    translator = gnomon.load(training.run, checkpoint="last")
    texts = ["123", "4567890", ""]
    together = [result.text for result in translator.translate(texts)]
    assert [translator.translate([text])[0].text for text in texts] == together


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
