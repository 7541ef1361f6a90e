"""Texts whose labels can be learned in seconds, of four kinds, and a recipe for them."""

from __future__ import annotations

import random
from pathlib import Path

RECIPE = """
name = "small"
task = "classification"
[data]
max_length = 24
[tokenizer]
vocab_size = 300
[model]
family = "encoder"
head.kind = "none"
d_model = 32
num_encoder_layers = 1
attention.num_heads = 2
feedforward.size = 64
norm.placement = "pre"
dropout = 0.1
tie = "none"
[objective]
label_smoothing = 0.0
[schedule]
kind = "constant"
peak = 5e-3
warmup_steps = 10
[training]
tokens_per_batch = 400
max_steps = 120
validate_every = 40
checkpoint_every = 40
log_every = 40
precision = "fp32"
"""
ANIMALS, THINGS = ["dog", "cat", "cow", "hen"], ["pen", "cup", "box", "key"]


def sentences(count: int, seed: int = 0) -> list[list[str]]:
    rng = random.Random(seed)
    return [rng.choices([*ANIMALS, *THINGS], k=rng.randint(3, 8)) for _ in range(count)]


def most(words: list[str]) -> str:
    animals = sum(word in ANIMALS for word in words)
    return "animals" if 2 * animals > len(words) else "things"


def write(folder: Path, kind: str, count: int = 600) -> Path:
    path = folder / f"{kind}.tsv"
    rows = []
    for words in sentences(count):
        if kind == "single":
            rows.append(f"{' '.join(words)}\t{most(words)}")
        elif kind == "multi":
            held = [word for word in ("dog", "pen") if word in words]
            rows.append(f"{' '.join(words)}\t{','.join(held)}")
        elif kind == "words":
            tags = " ".join("A" if word in ANIMALS else "T" for word in words)
            rows.append(f"{' '.join(words)}\t{tags}")
        else:
            other = sentences(1, seed=len(rows))[0]
            same = "same" if words[0] == other[0] else "other"
            rows.append(f"{' '.join(words)}\t{' '.join(other)}\t{same}")
    head = "text\tpair\tlabel" if kind == "pair" else "text\tlabel"
    path.write_text("\n".join([head, *rows]) + "\n")
    return path
