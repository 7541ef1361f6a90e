"""Fine-tuning an encoder: sentences a second of gnomon and of Hugging Face's Trainer, in turn.

    python benchmarks/finetune_speed.py FOLDER DATA --text 2 --label 1

FOLDER is a Hugging Face folder of a BERT; DATA a TSV with a text and a label a row. Each
measurement is a process of its own, which trains the whole way that its library does it: text to
ids, batches, forward, backward, clipping, AdamW. Steps after --warmup are timed. The Trainer is
measured as it comes (batches in random order) and with batches of sentences of about one length, as
gnomon makes them. Both have the same weights, dropouts, learning rate and mean number of sentences
in a batch. On a busy machine, --clock cpu with one thread.
Needs `pip install transformers accelerate`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RECIPE = """
name = "speed"
task = "classification"
[data]
train = "{data}"
text = "1"
label = "2"
max_length = {max_length}
[model]
family = "encoder"
head.kind = "none"
tie = "none"
dropout = 0.1
[classifier]
pooling = "mean"
dropout = 0.1
[objective]
label_smoothing = 0.0
[schedule]
kind = "constant"
peak = 1e-4
warmup_steps = 0
[optimizer]
betas = [0.9, 0.999]
eps = 1e-8
weight_decay = 0.01
[training]
tokens_per_batch = {tokens}
max_steps = {steps}
log_every = 1000000
checkpoint_every = 1000000
precision = "{precision}"
# Every 50th step the monitors would look at the model; these few steps had far more of their looks.
monitor_every = 0
seed = {seed}
"""
TRAINERS = ("gnomon", "trainer", "trainer, by length")


def main() -> None:
    """Measure in turns, print medians."""
    given = arguments()
    if given.only is not None:
        result = gnomon(given) if given.only == "gnomon" else trainer(given)
        print("RESULT " + json.dumps(result), flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        data, model = prepared(given, Path(folder))
        for precision in given.precision:
            measure(given, precision, data, model)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--text", type=int, default=1, help="column, from 1")
    parser.add_argument("--label", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32, help="sentences, on average")
    parser.add_argument("--max-length", type=int, default=64)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=30, help="that are timed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=3000, help="of DATA that are used")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--trainers", nargs="+", default=list(TRAINERS), choices=TRAINERS)
    parser.add_argument("--seed", type=int, default=0, help="of the first round's batches")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    parser.add_argument("--only", choices=TRAINERS, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def prepared(given: argparse.Namespace, folder: Path) -> tuple[Path, Path]:
    """The rows as a TSV of text and label, and the model as gnomon keeps it."""
    from gnomon import api

    raw = given.data.read_bytes()
    raw = gzip.decompress(raw) if given.data.suffix == ".gz" else raw
    rows = [line.split("\t") for line in raw.decode("utf-8").splitlines()[: given.rows]]
    data = folder / "data.tsv"
    lines = [f"{row[given.text - 1]}\t{row[given.label - 1]}\n" for row in rows]
    data.write_text("".join(lines), encoding="utf-8")
    model = folder / "model"
    api.import_model(given.folder, model)
    return data, model


def measure(given: argparse.Namespace, precision: str, data: Path, model: Path) -> None:
    """Take turns; each round gives a ratio."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in given.trainers}
    for number in range(given.rounds):
        for name in given.trainers:
            command = [sys.executable, __file__, str(given.folder), str(data), "--only", name]
            command += ["--model", str(model), "--precision", precision]
            command += ["--seed", str(given.seed + number)]  # other batches in each round
            for option in ("batch", "max_length", "warmup", "steps", "threads", "clock"):
                command += [f"--{option.replace('_', '-')}", str(getattr(given, option))]
            environment = os.environ | {"OMP_NUM_THREADS": str(given.threads)}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
            if not lines:
                sys.exit(f"{name}: {done.stderr[-2000:]}")
            found[name].append(json.loads(lines[0].removeprefix("RESULT ")))
            print(f"# {precision} {name}: {lines[0]}", file=sys.stderr, flush=True)
    print(
        f"{precision}, {given.rounds} rounds, {given.threads} threads, {given.clock} time, medians"
    )
    print("| | sentences/s | steps/s | tokens a step | gnomon's sentences/s to it |")
    print("|---|---|---|---|---|")
    for name, rounds in found.items():
        ratios = [
            ours["sentences_per_second"] / theirs["sentences_per_second"]
            for ours, theirs in zip(found["gnomon"], rounds, strict=True)
        ]
        speed, steps, size = (
            statistics.median(each[key] for each in rounds)
            for key in ("sentences_per_second", "steps_per_second", "tokens_per_step")
        )
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(
            f"| {name} | {speed:.1f} | {steps:.2f} | {size:.1f} "
            f"| {statistics.median(ratios):.2f} ({spread}) |",
            flush=True,
        )


def now(given: argparse.Namespace) -> float:
    """Seconds of the clock that was asked for."""
    return time.process_time() if given.clock == "cpu" else time.perf_counter()


def summary(times: list[float], tokens: list[int], sentences: int) -> dict[str, float]:
    """Speed from the first of `times` on, each the end of a step.

    Batches differ much in sentences or in length, so few steps say little of sentences. Tokens are
    what costs: sentences a second are tokens a second over the mean length of all texts.

    Args:
        tokens: of all texts, then of each timed batch, padding left out.
        sentences: how many texts there are.
    """
    seconds = times[-1] - times[0]
    mean = tokens[0] / sentences
    return {
        "seconds": seconds,
        "sentences_per_second": sum(tokens[1:]) / seconds / mean,
        "steps_per_second": (len(times) - 1) / seconds,
        "tokens_per_step": sum(tokens[1:]) / (len(times) - 1),
    }


def gnomon(given: argparse.Namespace) -> dict[str, float]:
    """`gnomon train` from the model folder."""
    import torch

    from gnomon import api
    from gnomon.tasks import load_encoder
    from gnomon.training import Listener, StepRecord

    torch.set_num_threads(given.threads)
    times: list[float] = []
    sizes: list[int] = []

    class Clock(Listener):
        def on_step(self, record: StepRecord) -> None:
            if record.step >= given.warmup:
                times.append(now(given))

    def count(task: Any) -> None:
        collate = task.collate

        def counting(spec: Any) -> Any:
            batch = collate(spec)
            sizes.append(int(batch.keep.sum()))
            return batch

        task.collate = counting

    texts = [row.split("\t")[0] for row in given.data.read_text(encoding="utf-8").splitlines()]
    framing = load_encoder(given.model, torch.device("cpu")).framing
    rows = framing.frame(texts, max_length=given.max_length)
    total = sum(len(row.ids) for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "recipe.toml"
        recipe.write_text(
            RECIPE.format(
                data=given.data,
                max_length=given.max_length,
                tokens=round(given.batch * total / len(rows)),
                steps=given.warmup + given.steps,
                precision=given.precision[0],
                seed=given.seed,
            ),
            encoding="utf-8",
        )
        api.train(
            recipe,
            run=Path(folder) / "run",
            start_from=given.model,
            listeners=[Clock()],
            before_start=count,
            check=False,
            overrides=["data.holdout=0"],
        )
    timed = sizes[given.warmup : given.warmup + given.steps]
    return summary(times, [total, *timed], len(rows))


def trainer(given: argparse.Namespace) -> dict[str, float]:
    """`transformers.Trainer` from the Hugging Face folder."""
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    torch.set_num_threads(given.threads)
    tokenizer = AutoTokenizer.from_pretrained(given.folder)
    rows = [row.split("\t") for row in given.data.read_text(encoding="utf-8").splitlines()]
    texts = [row[0] for row in rows]
    encoded = tokenizer(texts, truncation=True, max_length=given.max_length)
    names = sorted({row[1] for row in rows})
    dataset = [
        {key: encoded[key][n] for key in encoded} | {"labels": names.index(rows[n][1])}
        for n in range(len(rows))
    ]
    model = AutoModelForSequenceClassification.from_pretrained(given.folder, num_labels=len(names))
    total = sum(map(len, encoded["input_ids"]))
    times: list[float] = []
    sizes: list[int] = []
    pad = DataCollatorWithPadding(tokenizer)

    def collate(rows: Any) -> Any:
        batch = pad(rows)
        sizes.append(int(batch["attention_mask"].sum()))
        return batch

    class Clock(TrainerCallback):
        def on_step_end(self, arguments: Any, state: Any, control: Any, **others: Any) -> None:
            if state.global_step >= given.warmup:
                times.append(now(given))

    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {}
        if given.only.endswith("by length"):
            options["train_sampling_strategy"] = "group_by_length"
        Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=given.batch,
                max_steps=given.warmup + given.steps,
                learning_rate=1e-4,
                lr_scheduler_type="constant",
                weight_decay=0.01,
                use_cpu=True,
                seed=given.seed,
                bf16=given.precision[0] == "bf16",
                save_strategy="no",
                logging_strategy="no",
                report_to=[],
                disable_tqdm=True,
                dataloader_pin_memory=False,
                **options,
            ),
            train_dataset=dataset,
            data_collator=collate,
            callbacks=[Clock()],
        ).train()
    timed = sizes[given.warmup : given.warmup + given.steps]  # one batch is made ahead
    return summary(times, [total, *timed], len(rows))


if __name__ == "__main__":
    main()
