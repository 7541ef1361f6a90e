"""Half precision: the loss is scaled, and a step that overflows is made again in a wider format."""

from __future__ import annotations

import math
import shutil

import pytest
import torch

from gnomon.errors import TrainingStopped
from gnomon.training.events import Listener
from gnomon.training.loss_scale import LossScale
from gnomon.training.run import RunFolder
from training.tiny_task import TinyTask, trainer


class Told(Listener):
    """Remembers warnings and steps."""

    def __init__(self):
        self.messages, self.steps = [], []

    def on_message(self, level, text):
        self.messages.append(text)

    def on_step(self, record):
        self.steps.append(record)


class Steep(TinyTask):
    """Its gradients overflow in fp16 under the first loss scale."""

    def predict(self, batch, inputs, keep):
        return super().predict(batch, inputs, keep).float() * 300


def trained(path, precision, task=None, **settings):
    told = Told()
    training = trainer(path, task or TinyTask(), precision=precision, listeners=[told], **settings)
    training.fit()
    return training, told


@pytest.mark.parametrize("precision", ["fp16", "bf16", "bf16-master"])
def test_reaches_the_loss_of_fp32_with_fp32_weights(tmp_path, precision):
    task = TinyTask(dropout=0.0)
    training, told = trained(tmp_path / "half", precision, task, max_steps=150)
    _, exact = trained(tmp_path / "fp32", "fp32", TinyTask(dropout=0.0), max_steps=150)
    assert {p.dtype for p in task.model.parameters()} == {torch.float32}
    ends = [sum(step.nll for step in each.steps[-15:]) / 15 for each in (told, exact)]
    assert ends[0] == pytest.approx(ends[1], rel=0.05)
    assert ends[1] < 0.6 * exact.steps[0].nll
    assert training.precision.name == precision
    assert not told.messages


def test_gradients_in_fp16_are_unscaled_before_anyone_looks(tmp_path):
    norms = {}
    for precision in ("fp32", "fp16"):
        _, told = trained(tmp_path / precision, precision, TinyTask(dropout=0.0), max_steps=1)
        norms[precision] = told.steps[0].gradient_norm
    assert norms["fp16"] == pytest.approx(norms["fp32"], rel=0.01)


def test_small_gradients_survive_because_the_loss_is_scaled(tmp_path, monkeypatch):
    class Far(TinyTask):
        def predict(self, batch, inputs, keep):
            # What comes back through the product in fp16 is smaller than fp16 has.
            return super().predict(batch, inputs, keep) * 1e-7

    moved = {}
    for first in (1.0, 2.0**16):
        monkeypatch.setattr(
            LossScale,
            "__init__",
            lambda self, v=first: self.__dict__.update(value=v, steps_since_change=0),
        )
        task = Far(dropout=0.0)
        _, told = trained(tmp_path / str(first), "fp16", task, max_steps=1)
        moved[first] = told.steps[0].gradient_norm
    _, exact = trained(tmp_path / "exact", "fp32", Far(dropout=0.0), max_steps=1)
    assert moved[2.0**16] == pytest.approx(exact.steps[0].gradient_norm, rel=0.05)
    assert moved[1.0] < 0.1 * exact.steps[0].gradient_norm


def test_an_overflow_of_gradients_halves_the_scale_and_takes_the_step(tmp_path):
    training, told = trained(tmp_path, "fp16", Steep(), max_steps=5)
    assert training.precision.name == "fp16"
    assert training.state.loss_scale.value < 2.0**16
    assert [step.step for step in told.steps] == [1, 2, 3, 4, 5]
    assert all(math.isfinite(step.gradient_norm) for step in told.steps)
    assert not told.messages


class Large(TinyTask):
    """Its products are beyond fp16 from the third step on."""

    def predict(self, batch, inputs, keep):
        logits = super().predict(batch, inputs, keep)
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls >= 3:
            big = torch.full((1, 4), 300.0)
            logits = logits + 0 * (big @ big.t())  # 4 · 300² = 360,000
        return logits


def test_a_loss_beyond_fp16_goes_on_in_bf16_and_so_does_the_run(tmp_path):
    training, told = trained(tmp_path, "fp16", Large(), max_steps=6, checkpoint_every=2)
    assert training.precision.name == "bf16"
    assert len(told.steps) == 6
    (message,) = told.messages
    assert "step 3" in message
    assert "bf16" in message
    state = RunFolder(tmp_path).state()
    assert (state.precision, state.step) == ("bf16", 6)
    shutil.rmtree(RunFolder(tmp_path).checkpoints.path(6))  # as if killed before
    continued, told = trained(tmp_path, "fp16", Large(), max_steps=6, checkpoint_every=2)
    assert [step.step for step in told.steps] == [5, 6]
    assert continued.precision.name == "bf16"
    assert not told.messages


def test_the_repeated_step_is_the_step_that_fp32_would_have_taken(tmp_path):
    """Same weights, same dropout: only what came before was made in another format."""

    class Never(TinyTask):
        def predict(self, batch, inputs, keep):
            logits = super().predict(batch, inputs, keep)
            return logits if logits.dtype == torch.float32 else logits * math.nan

    _, exact = trained(tmp_path / "fp32", "fp32", TinyTask(dropout=0.3), max_steps=4)
    training, found = trained(tmp_path / "fp16", "fp16", Never(dropout=0.3), max_steps=4)
    assert training.precision.name == "fp32"
    assert len(found.messages) == 2
    assert [s.loss for s in found.steps] == [s.loss for s in exact.steps]
    assert [s.gradient_norm for s in found.steps] == [s.gradient_norm for s in exact.steps]


def test_what_no_format_helps_stops_and_names_the_widest(tmp_path):
    class Broken(TinyTask):
        def predict(self, batch, inputs, keep):
            return super().predict(batch, inputs, keep) * math.nan

    with pytest.raises(TrainingStopped, match="finite"):
        trained(tmp_path, "bf16", Broken(), max_steps=3)


def test_the_scale_grows_while_all_goes_well_and_has_a_top_and_a_bottom():
    scale = LossScale()
    for _ in range(2000):
        scale.went_well()
    assert scale.value == 2.0**17
    for _ in range(40_000):
        scale.went_well()
    assert scale.value == 2.0**24
    tries = 0
    while scale.overflowed():
        tries += 1
    assert tries == 24


def test_a_killed_fp16_run_ends_bit_for_bit(tmp_path):
    settings = {"max_steps": 9, "checkpoint_every": 3}
    trained(tmp_path / "whole", "fp16", Steep(), **settings)
    trained(tmp_path / "parts", "fp16", Steep(), max_steps=6, checkpoint_every=3)
    run = RunFolder(tmp_path / "parts")
    shutil.rmtree(run.checkpoints.path(6))  # as if killed before it was written
    trained(tmp_path / "parts", "fp16", Steep(), **settings)
    ends = [(RunFolder(tmp_path / n).last()) for n in ("whole", "parts")]
    for name in ("model.safetensors", "training.safetensors"):
        assert (ends[0] / name).read_bytes() == (ends[1] / name).read_bytes()
