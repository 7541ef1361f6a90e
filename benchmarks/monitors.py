"""What the doctor's monitors cost a training: blocks of steps with and without them, in turn.

    python benchmarks/monitors.py [PRESET] [--blocks 20]

One training of the preset on the quickstart's corpus (of a language model, or an encoder's
pretraining, on its sentences as documents); every 50 steps the monitors are switched on
or off, so that whatever else the machine does reaches both alike. Printed are the medians of the
blocks (CPU time; on a GPU wall time) and their ratio, what each monitor took, and what a validation
takes more.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from gnomon import api
from gnomon.doctor.monitors import continuations
from gnomon.doctor.monitors.run import RunMonitors
from gnomon.doctor.monitors.translation import sample_of
from gnomon.quickstart import make_corpus
from gnomon.recipes import DocumentRecipe, Recipe, recipe_kind
from gnomon.tasks import LanguageModellingTask, TranslationTask
from gnomon.training import Listener, ObjectiveConfig, RunFolder, StepRecord, Trainer

BLOCK = 50  # steps; holds one look


# On one CPU thread the process's own time, which neighbours on the machine do not change.
clock = time.perf_counter if torch.cuda.is_available() else time.process_time


class Enough(Exception):
    pass


class Alternate(Listener):
    """Switches the monitors every block and notes how long each block took."""

    def __init__(self) -> None:
        self.trainer: Trainer | None = None
        self.monitors: RunMonitors | None = None
        self.seconds: dict[bool, list[float]] = {True: [], False: []}
        self._started: float | None = None
        self._on = True

    def on_step(self, record: StepRecord) -> None:
        if record.step % BLOCK != BLOCK // 2:  # looks fall into the middle of a block
            return
        now = clock()
        if self._started is not None and record.step > 2 * BLOCK:
            self.seconds[self._on].append(now - self._started)
        self._started, self._on = now, not self._on
        assert self.trainer is not None
        self.trainer.monitors = self.monitors if self._on else None


def opened(preset: str, folder: Path) -> tuple[Any, Recipe]:
    corpus = make_corpus("de")
    is_documents = issubclass(recipe_kind(preset), DocumentRecipe)
    between, suffix = ("\n", "txt") if is_documents else ("\t", "tsv")
    for name, pairs in (("train", corpus.train), ("valid", corpus.valid)):
        text = "".join(f"{pair.source}{between}{pair.target}\n" for pair in pairs)
        (folder / f"{name}.{suffix}").write_text(text)
    train, valid = (folder / f"{name}.{suffix}" for name in ("train", "valid"))
    recipe = api.read_recipe(preset, data=train, valid_data=valid)
    caught: list[Any] = []

    def catch(task: Any) -> None:
        caught.append(task)
        raise Enough

    with contextlib.suppress(Enough):
        api.train(recipe, run=folder / "prepared", before_start=catch)
    return caught[0], recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("preset", nargs="?", default="small")
    parser.add_argument("--blocks", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        task, recipe = opened(arguments.preset, Path(name))
        run = RunFolder(Path(name) / "run")
        alternate = Alternate()
        schedule = recipe.schedule.build(
            d_model=task.model.config.d_model, max_steps=recipe.training.max_steps
        )
        steps = BLOCK * (arguments.blocks + 2)
        training = replace(
            recipe.training, max_steps=steps, checkpoint_every=10**6, validate_every=10**6
        )
        alternate.monitors = RunMonitors(task, run, every=BLOCK)
        alternate.trainer = Trainer(
            task,
            run,
            training=training,
            objective=ObjectiveConfig(),
            optimizer=recipe.optimizer,
            schedule=schedule,
            listeners=[alternate],
            monitors=alternate.monitors,
        )
        alternate.trainer.fit()
        on, off = (median(alternate.seconds[which]) for which in (True, False))
        print(f"preset {arguments.preset}, blocks of {BLOCK} steps, medians of "
              f"{len(alternate.seconds[True])} and {len(alternate.seconds[False])}")  # fmt: skip
        print(f"without monitors {off:8.2f} s\nwith monitors    {on:8.2f} s\nratio {on / off:.4f}")
        looks = len(alternate.seconds[True]) + 3
        for kind, seconds in alternate.monitors.panel.seconds.items():
            print(f"  {kind:<14} {seconds / looks * 1000:8.1f} ms a look")
        started = time.perf_counter()
        task.model.eval()
        with torch.no_grad():
            task.validate(0)
        middle = time.perf_counter()
        if isinstance(task, LanguageModellingTask):
            continuations.sample_of(task)
        elif isinstance(task, TranslationTask):
            sample_of(task)
        print(f"validation {middle - started:.2f} s, {time.perf_counter() - middle:.2f} s more")


if __name__ == "__main__":
    main()
