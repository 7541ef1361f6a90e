"""Digit strings and the same backwards: data and a recipe for a model trained in seconds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

DIGITS_RECIPE = """
name = "digits"
[tokenizer]
vocab_size = 280
split_digits = true
[model]
d_model = 32
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.1
attention.num_heads = 2
feedforward.size = 64
norm.placement = "pre"
[schedule]
kind = "constant"
peak = 5e-3
warmup_steps = 10
[training]
tokens_per_batch = 600
max_steps = 40
validate_every = 20
checkpoint_every = 20
log_every = 10
precision = "fp32"
[decoding]
beam = 2
"""


@dataclass(frozen=True)
class TrainedRun:
    """A run that was trained briefly on reversing short digit strings, and its files."""

    path: Path
    recipe: Path
    data: Path
    sources: list[str]


def write_digits(folder: Path, *, num_pairs: int = 400, seed: int = 0) -> Path:
    """A TSV of digit strings and the same backwards."""
    rng = random.Random(seed)
    rows = ["".join(rng.choices("0123456789", k=rng.randint(1, 8))) for _ in range(num_pairs)]
    path = folder / "digits.tsv"
    path.write_text("".join(f"{row}\t{row[::-1]}\n" for row in rows), encoding="utf-8")
    return path
