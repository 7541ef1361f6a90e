"""One-line summaries of functions: what preset `title` learns from Python's own standard library.

    python benchmarks/titles.py --out titles

Source: a function's code without its docstring; target: the docstring's first paragraph; split by
file, as the quickstart splits them. Beside the model stand two that have learned nothing: the
function's name as words, and the summary of the most similar training function.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from gnomon import api
from gnomon.cli.report import comparison_sheets, print_scores
from gnomon.evaluation import NearestLine
from gnomon.quickstart.library import SourceFile, find_library, read_library

SMALL = (
    "data.max_length=192",
    "tokenizer.vocab_size=4000",
    "model.d_model=128",
    "model.num_encoder_layers=2",
    "model.num_decoder_layers=2",
    "model.feedforward.size=512",
    "training.tokens_per_batch=4096",
    "training.validate_every=200",
    "training.checkpoint_every=200",
    "training.keep_last=1",
    "schedule.warmup_steps=200",
    "evaluation.validation_lines=0",
)


@dataclass(frozen=True)
class Summary:
    """A function and what its docstring says first."""

    name: str
    code: str
    text: str


def summaries(files: list[SourceFile]) -> Iterator[Summary]:
    """Of all functions with a docstring."""
    for file in files:
        try:
            tree = ast.parse(file.text)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            docstring = ast.get_docstring(node)
            if docstring and docstring.strip():
                text = " ".join(docstring.strip().split("\n\n")[0].split())
                node.body = node.body[1:] or [ast.Pass()]
                yield Summary(node.name, " ".join(ast.unparse(node).split()), text)


def as_words(name: str) -> str:
    """ "getFirst_line" → "get first line"."""
    return " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)).lower()


def main() -> None:
    """Write the pairs, train, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--set", action="append", default=[], dest="changes")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    library = read_library(find_library())
    pairs = {
        split: list(summaries(getattr(library, split))) for split in ("train", "valid", "test")
    }
    keys = {"train": "pairs", "valid": "valid_pairs", "test": "test_pairs"}
    overrides = [*SMALL, f"training.max_steps={chosen.steps}", *chosen.changes]
    for split, some in pairs.items():
        path = chosen.out / f"{split}.jsonl"
        rows = (json.dumps({"document": one.code, "title": one.text}) + "\n" for one in some)
        path.write_text("".join(rows), encoding="utf-8")
        overrides.append(f"data.{keys[split]}='{path.resolve()}'")
        print(f"{split}: {len(some):,} functions")
    training = api.train("title", overrides=overrides, run=chosen.out / "run", say=print)
    nearest = NearestLine(
        [one.code for one in pairs["train"]], [one.text for one in pairs["train"]]
    )
    baselines = {
        "the name as words": [as_words(one.name) for one in pairs["test"]],
        "the nearest function's": nearest.translate([one.code for one in pairs["test"]]),
    }
    for name, lines in baselines.items():
        (chosen.out / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    report = api.evaluate(
        training.run,
        baselines=baselines,
        against=[chosen.out / f"{name}.txt" for name in baselines],
    )
    console = Console()
    print_scores(report, console)
    for sheet in comparison_sheets(report):
        sheet.draw(console)
    for line in report.lines[:10]:
        print(f"{line.reference!r}\n    {line.hypothesis!r}")


if __name__ == "__main__":
    main()
