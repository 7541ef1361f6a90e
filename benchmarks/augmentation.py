"""What augmentation is worth: a small model trained with and without, on the robustness suite.

    python benchmarks/augmentation.py --steps 1000

Trains on the quickstart's phrases (made at run time, nothing is downloaded), and prints for each
perturbed test set chrF and the share of lines whose output is that of the clean line. One seed:
differences of a point or two are noise.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import gnomon
from gnomon.quickstart import make_corpus

RECIPE = """
[tokenizer]
vocab_size = 2000
[model]
d_model = 64
num_encoder_layers = 2
num_decoder_layers = 2
dropout = 0.05
attention.num_heads = 4
feedforward.size = 256
norm.placement = "pre"
[schedule]
kind = "linear"
peak = 4e-3
warmup_steps = 200
[optimizer]
betas = [0.9, 0.98]
clip_norm = 1.0
[training]
tokens_per_batch = 2048
precision = "fp32"
keep_last = 1
[decoding]
beam = 1
[data]
holdout = 200
[evaluation]
validation_lines = 0
metrics = ["chrf", "exact_match"]
"""
TABLES = {
    "without": {},
    "with": {
        "upper": 0.1,
        "lower": 0.1,
        "title": 0.1,
        "no_final_punctuation": 0.1,
        "typos": 0.1,
        "extra_blanks": 0.1,
        "single_words": 2.0,
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--test", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        corpus = make_corpus("de", num_train=options.pairs, num_test=options.test)
        for name, pairs in (("train", corpus.train), ("test", corpus.test)):
            lines = (f"{pair.source}\t{pair.target}\n" for pair in pairs)
            (folder / f"{name}.tsv").write_text("".join(lines), "utf-8")
        (folder / "recipe.toml").write_text(RECIPE)
        reports = {}
        for name, table in TABLES.items():
            start = time.perf_counter()
            gnomon.train(
                folder / "recipe.toml",
                data=folder / "train.tsv",
                run=folder / name,
                overrides=[
                    f"data.test_pairs='{folder / 'test.tsv'}'",
                    f"training.max_steps={options.steps}",
                    f"training.validate_every={options.steps}",
                    f"training.checkpoint_every={options.steps}",
                    *(f"augmentation.{key}={value}" for key, value in table.items()),
                ],
            )
            print(f"# {name}: trained in {time.perf_counter() - start:.0f} s", flush=True)
            reports[name] = gnomon.evaluate(folder / name, with_robustness=True)
    show(reports)


def show(reports: dict) -> None:
    names = list(reports)
    print("sources", *(f"chrf {name}\tunchanged {name}" for name in names), sep="\t")
    clean = [reports[name]["chrf"].value for name in names]
    exact = [reports[name]["exact_match"].value for name in names]
    print(
        "clean", *(f"{c:.1f}\texact {e:.1f}%" for c, e in zip(clean, exact, strict=True)), sep="\t"
    )
    for rows in zip(*(reports[name].robustness for name in names), strict=True):
        cells = []
        for row in rows:
            if row.skipped:
                cells.append(f"skipped: {row.skipped}")
                continue
            score = f"{row.scores['chrf']:.1f}" if row.scores else "–"
            same = "–" if row.unchanged is None else f"{row.unchanged:.0%}"
            figures = ", ".join(f"{key} {value:.2f}" for key, value in row.figures.items())
            cells.append(f"{score}\t{same} {figures}".rstrip())
        print(rows[0].name, *cells, sep="\t")


if __name__ == "__main__":
    main()
