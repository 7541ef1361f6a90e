"""A training of 30 steps with BPE-dropout, and ways to stop any training."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gnomon import api
from gnomon.tasks import TranslationTask
from gnomon.training import Listener, StepRecord

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
