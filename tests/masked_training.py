"""A small pretraining of an encoder: lines of numbers in their order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from document_training import train_on
from gnomon import api

RECIPE = """
name = "guess"
task = "masked_lm"
[data]
context = 24
[tokenizer]
vocab_size = 400
[model]
family = "encoder"
d_model = 32
num_encoder_layers = 2
attention.num_heads = 2
feedforward.size = 64
norm.placement = "pre"
dropout = 0.0
[objective]
label_smoothing = 0.0
[schedule]
kind = "constant"
peak = 5e-3
warmup_steps = 10
[training]
tokens_per_batch = 480
max_steps = 150
validate_every = 75
checkpoint_every = 75
precision = "fp32"
"""
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def counting(count: int, seed: int = 0) -> list[str]:
    """Lines of five numbers in their order: a hidden one can be guessed from both sides."""
    rng = random.Random(seed)
    return [" ".join(WORDS[(s := rng.randrange(5)) : s + 5]) for _ in range(count)]


def train(folder: Path, *overrides: str, **options: Any) -> api.Training:
    """Train it on such lines."""
    return train_on(folder, RECIPE, counting(400), counting(60, seed=1), *overrides, **options)
