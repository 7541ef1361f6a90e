"""A training of 30 steps with BPE-dropout; ways to stop any training, and to compare it whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import gnomon
from gnomon import api
from gnomon.tasks import TranslationTask
from gnomon.training import Listener, RunFolder, StepRecord

RECIPE = """
name = "letters"
[data]
holdout = 20
variants = 3
[tokenizer]
vocab_size = 400
bpe_dropout = 0.2
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
tokens_per_batch = 900
max_steps = 30
validate_every = 15
checkpoint_every = 15
log_every = 10
precision = "fp32"
[decoding]
beam = 1
"""


class Stop(Listener):
    """Interrupts the training after a step, as Ctrl-C would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, record: StepRecord) -> None:
        if record.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


def check_killed(train: Callable[..., Any], folder: Path, *settings: str) -> None:
    """A training stopped after step 5 and continued ends bit for bit as one that was not."""
    whole, parts = folder / "whole", folder / "parts"
    train(folder, *settings, run=whole)
    train(folder, *settings, run=parts, listeners=[Stop(5)])
    train(folder, *settings, run=parts)
    ends = [
        torch.cat([p.flatten() for p in gnomon.load(run, checkpoint="last").model.parameters()])
        for run in (whole, parts)
    ]
    assert torch.equal(*ends)


def opened(recipe: Path, data: Path, run: Path, *overrides: str) -> TranslationTask:
    """The task of a training, as it stands before its first step."""
    caught: list[TranslationTask] = []

    class EnoughError(Exception):
        pass

    def catch(task: TranslationTask) -> None:
        caught.append(task)
        raise EnoughError

    with pytest.raises(EnoughError):
        api.train(recipe, data=data, run=run, overrides=overrides, before_start=catch)
    return caught[0]


def check_continuation(recipe: Path, data: Path, folder: Path) -> None:
    """A training of 30 steps, stopped around epoch borders, ends bit for bit as a whole one."""
    batches = len(opened(recipe, data, folder / "run").epoch(0)[0])
    assert 3 < batches < 15, "there must be epoch borders within the training"
    torch.set_num_threads(1)
    whole = api.train(recipe, data=data, run=folder / "whole")
    # In an epoch, at its border, and just behind it.
    for step in (batches - 2, batches, batches + 1, 2 * batches):
        stopped = api.train(recipe, data=data, run=folder / "parts", listeners=[Stop(step)])
        assert not stopped.outcome.finished
    parts = api.train(recipe, data=data, run=folder / "parts")
    assert parts.outcome.finished
    for name in ("model.safetensors", "training.safetensors"):
        one, two = (RunFolder(run).checkpoints.path(30) / name for run in (whole.run, parts.run))
        assert one.read_bytes() == two.read_bytes(), name
