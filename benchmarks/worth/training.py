"""What training options are worth: small trainings that differ in one thing, scored on one test.

    python -m benchmarks.worth.training --train train.en train.de --valid val.en val.de \\
        --test test.en test.de --out runs/worth

One line an experiment: loss on the validation text, BLEU of the test (beam 4, best step by
validation), CPU seconds of training and of translating. One seed each: "another seed" shows how far
chance alone goes. What is finished in --out is not trained again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from benchmarks.worth.experiments import EXPERIMENTS, RECIPE, Experiment
from benchmarks.worth.measure import Text
from benchmarks.worth.texts import read_pairs, write_texts

import gnomon
from gnomon.api import average, backtranslate
from gnomon.evaluation import bleu, bleu_tokenizer
from gnomon.training import RunFolder, read_metrics

REVERSE = "reverse"


def main() -> None:
    options = parse_arguments()
    torch.set_num_threads(1)
    other = [] if options.other is None else read_pairs(*options.other, options.pairs)
    write_texts(options.out / "text", read_pairs(*options.train, options.pairs), other)
    names = options.only or [
        name for name in EXPERIMENTS if options.other or "other domain" not in name
    ]
    print("experiment\tvalid nll\ttest BLEU\ttraining CPU s\ttranslating CPU s\tstep", flush=True)
    for name in names:
        show(name, trained(name, options))
        if name == "baseline":
            for kind, count in (("last", 4), ("last", 8), ("best", 4)):
                show(f"… mean of {kind} {count}", averaged(options, kind, count))


def trained(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The result of an experiment; trains what is not there yet."""
    run = path_of(name, options)
    kept = run.with_suffix(".json")
    if kept.is_file():
        found: dict[str, Any] = json.loads(kept.read_text("utf-8"))
        return found
    experiment = EXPERIMENTS[name]
    if experiment.back is not None:
        make_back(experiment, options)
    recipe = run.with_suffix(".toml")
    recipe.write_text(recipe_of(name, experiment, options), "utf-8")
    continued, began = RunFolder(run).state() is not None, time.process_time()
    gnomon.train(recipe, run=run, overrides=experiment.settings, check=False)
    # Of a training that was stopped in between nobody knows the whole time.
    seconds = {} if continued else {"training": time.process_time() - began}
    losses = {
        line["step"]: line["metrics"]["nll"]
        for line in read_metrics(RunFolder(run).metrics_path)
        if line.get("kind") == "validation"
    }
    step = min(losses, key=lambda step: losses[step])
    result = {"nll": losses[step], "step": step, **seconds}
    if name != REVERSE:
        result |= tested(run, options, experiment.tags)
    kept.write_text(json.dumps(result), "utf-8")
    return result


def recipe_of(name: str, experiment: Experiment, options: argparse.Namespace) -> str:
    valid = options.valid[::-1] if name == REVERSE else options.valid
    folder = (options.out / "text").resolve()
    recipe = RECIPE.format(
        warmup=options.steps // 5,
        steps=options.steps,
        every=max(1, options.steps // 20),
        tokens=options.tokens,
        valid_source=valid[0].resolve(),
        valid_target=valid[1].resolve(),
    )
    if experiment.tags:  # every pair of a model with tags has some, those of validation, too
        recipe = recipe.partition("[data]")[0]
        recipe += f'[[data.valid]]\nsource = "{valid[0].resolve()}"\n'
        recipe += f'target = "{valid[1].resolve()}"\ntags = {list(experiment.tags)}\n'
    return recipe + "".join(source.toml(str(folder)) for source in experiment.sources)


def make_back(experiment: Experiment, options: argparse.Namespace) -> None:
    trained(REVERSE, options)
    assert experiment.back is not None, "whoever calls has looked"
    folder = options.out / "text"
    output = folder / f"{experiment.sources[-1].text}.tsv"
    if not output.exists():
        backtranslate(path_of(REVERSE, options), folder / "mono.txt", output, **experiment.back)


def averaged(options: argparse.Namespace, kind: str, count: int) -> dict[str, Any]:
    run = path_of("baseline", options)
    kept = run.with_name(f"{run.name}-{kind}-{count}.json")
    if kept.is_file():
        found: dict[str, Any] = json.loads(kept.read_text("utf-8"))
        return found
    with TemporaryDirectory() as scratch:
        number: dict[str, Any] = {kind: count}
        result = tested(average([run], output=Path(scratch) / "mean", **number), options, ())
    kept.write_text(json.dumps(result), "utf-8")
    return result


def tested(model: Path, options: argparse.Namespace, tags: tuple[str, ...]) -> dict[str, Any]:
    text = Text.read(*options.test, options.test_lines)
    translator = gnomon.load(model)
    began = time.process_time()
    outputs = [found.text for found in translator.translate(text.sources, tags=tags, beam=4)]
    seconds = time.process_time() - began
    tokenize = options.tokenize
    if tokenize == "auto":
        tokenize = bleu_tokenizer(text.references)
    return {"bleu": bleu(outputs, text.references, tokenize).value, "translating": seconds}


def show(name: str, result: dict[str, Any]) -> None:
    def cell(key: str, digits: int) -> str:
        return f"{result[key]:.{digits}f}" if key in result else "–"

    figures = [cell("nll", 3), cell("bleu", 2), cell("training", 0), cell("translating", 1)]
    print(name, *figures, result.get("step", "–"), sep="\t", flush=True)


def path_of(name: str, options: argparse.Namespace) -> Path:
    return Path(options.out, name.replace(" ", "-").replace(",", "").replace("+", "and"))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.worth.training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, what in (("train", True), ("valid", True), ("test", True), ("other", False)):
        parser.add_argument(f"--{name}", nargs=2, type=Path, required=what, metavar=("SRC", "TGT"))
    parser.add_argument("--out", type=Path, required=True, help="folder for texts and runs")
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=2000, help="of a batch, both sides")
    parser.add_argument("--test-lines", type=int)
    parser.add_argument("--tokenize", default="auto", help="sacreBLEU's name; none for tokens")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
