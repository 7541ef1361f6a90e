"""Small trainings on documents: lines that count, for a language model and for an encoder."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from gnomon import api

LANGUAGE_MODEL = """
name = "letters"
task = "language_model"
[data]
context = 32
[tokenizer]
vocab_size = 320
[model]
family = "decoder"
d_model = 32
num_decoder_layers = 2
attention.num_heads = 2
feedforward.size = 64
norm.placement = "pre"
dropout = 0.1
[objective]
label_smoothing = 0.0
[schedule]
kind = "cosine"
peak = 4e-4
warmup_steps = 20
[training]
tokens_per_batch = 256
max_steps = 60
validate_every = 20
checkpoint_every = 30
precision = "fp32"
"""
MASKED = (
    LANGUAGE_MODEL.replace("language_model", "masked_lm")
    .replace('"decoder"', '"encoder"\nhead = { kind = "transform", bias = true }')
    .replace("num_decoder", "num_encoder")
)
DETECTOR = MASKED.replace("masked_lm", "replaced_tokens").replace(
    "[tokenizer]\nvocab_size = 320\n", ""
)
RECIPES = {"language_model": LANGUAGE_MODEL, "masked_lm": MASKED, "replaced_tokens": DETECTOR}
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def counting(count: int, seed: int = 0) -> list[str]:
    """Lines that count on from a number."""
    rng = random.Random(seed)
    starts = [rng.randrange(len(WORDS) - 4) for _ in range(count)]
    return [" ".join(WORDS[start : start + rng.randint(3, 5)]) for start in starts]


def train(folder: Path, task: str, *overrides: str, **options: Any) -> api.Training:
    """Train the recipe of a task in `folder`, into `folder/run`."""
    return train_on(
        folder, RECIPES[task], counting(300), counting(60, seed=1), *overrides, **options
    )


def train_on(
    folder: Path,
    recipe: str,
    lines: list[str],
    valid: list[str],
    *overrides: str,
    **options: Any,
) -> api.Training:
    """Train a recipe on lines written into `folder`, into `folder/run`."""
    for name, content in (("r.toml", recipe), ("text.txt", lines), ("valid.txt", valid)):
        text = content if isinstance(content, str) else "\n".join(content) + "\n"
        (folder / name).write_text(text)
    return api.train(
        folder / "r.toml",
        data=folder / "text.txt",
        valid_data=folder / "valid.txt",
        overrides=overrides,
        run=options.pop("run", folder / "run"),
        **options,
    )
