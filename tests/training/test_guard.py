import errno
import json

import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from gnomon.errors import TrainingStopped
from gnomon.training import checkpoint
from gnomon.training.events import Listener
from gnomon.training.guard import find_non_finite, is_disk_full
from gnomon.training.run import RunFolder
from training.tiny_task import TinyTask, trainer


class Poison(nn.Module):
    """Passes its input on, except at one batch, where forward or gradient turns bad."""

    def __init__(self, *, when, forward=1.0, backward=1.0):
        super().__init__()
        self.when, self.forward_factor, self.backward_factor = when, forward, backward

    def forward(self, x):
        if not self.when():
            return x
        if self.backward_factor != 1.0:
            x = x * 1.0  # a tensor of its own, so that the hook acts before x's gradient is seen
            x.register_hook(lambda gradient: gradient * self.backward_factor)
        return x * self.forward_factor


class PoisonedTask(TinyTask):
    """Its `inner` module goes bad on the batch that holds line 7, from step 30 on."""

    def __init__(self, **poison):
        super().__init__(dropout=0.3)
        self.batches = 0
        self.current = None
        self.model.inner = nn.Sequential(self.model.inner, Poison(when=self.is_bad, **poison))

    def is_bad(self):
        return self.batches > 30 and 7 in self.current.line_numbers

    def collate(self, spec):
        self.batches += 1
        return super().collate(spec)

    def predict(self, batch, inputs, keep):
        self.current = batch
        return super().predict(batch, inputs, keep)


def stopped(path, task, **settings):
    training = trainer(path, task, max_steps=100, checkpoint_every=10, **settings)
    with pytest.raises(TrainingStopped) as caught:
        training.fit()
    return str(caught.value), training


def test_nan_names_step_lines_module_and_last_good_checkpoint(tmp_path):
    message, training = stopped(tmp_path, PoisonedTask(forward=float("nan")))
    step = training.state.step + 1
    assert f"step {step}:" in message
    assert "loss nan" in message
    lines = message.split("lines [")[1].split("]")[0].split(", ")
    assert "7" in lines
    assert len(lines) == 4
    assert "the output of inner.1 (Poison;" in message
    assert str(RunFolder(tmp_path).last()) in message
    assert RunFolder(tmp_path).state().step == (step - 1) // 10 * 10


def test_the_guilty_micro_batch_is_told_from_its_neighbours(tmp_path):
    message, _ = stopped(tmp_path, PoisonedTask(forward=float("inf")), accumulate=4)
    assert message.count("lines [") == 1
    assert "7" in message.split("lines [")[1].split("]")[0].split(", ")


def test_the_second_look_draws_the_same_random_numbers(tmp_path):
    """A NaN that one dropout mask in fifty brings about must not be gone when looked for."""
    task = TinyTask(dropout=0.3)
    poison = Poison(when=lambda: bool(torch.rand(()) < 0.02), forward=float("nan"))
    task.model.inner = nn.Sequential(task.model.inner, poison)
    message, _ = stopped(tmp_path, task, accumulate=3)
    assert "first: the output of inner.1" in message


def test_a_gradient_that_overflows_names_where(tmp_path):
    message, _ = stopped(tmp_path, PoisonedTask(backward=float("inf")))
    assert "first: the way back through a multiplication in inner.1 (Poison)" in message
    assert "it shows in the gradient of the output of inner.0" in message
    assert "gradient norm nan" in message or "gradient norm inf" in message


def test_no_step_is_taken_and_nothing_bad_is_saved(tmp_path):
    task = PoisonedTask(forward=float("nan"))
    stopped(tmp_path, task)
    assert all(p.isfinite().all() for p in task.model.parameters())
    other = TinyTask()
    other.model.inner = nn.Sequential(other.model.inner)
    for step in RunFolder(tmp_path).checkpoints.steps():
        other.load(RunFolder(tmp_path).checkpoints.path(step))
        assert all(p.isfinite().all() for p in other.model.parameters())


def test_bad_weights_are_never_saved(tmp_path):
    """Weights that an optimizer step itself has spoilt, before any loss could show it."""

    class Spoiler(Listener):
        def on_step(self, record):
            if record.step == 20:
                with torch.no_grad():
                    task.model.norm.weight[3] = float("inf")

    task = TinyTask()
    message, _ = stopped(tmp_path, task, listeners=[Spoiler()])
    assert "norm.weight" in message
    assert RunFolder(tmp_path).checkpoints.steps() == [10]


def test_bad_weights_are_found_before_modules_are_blamed():
    task = TinyTask()
    with torch.no_grad():
        task.model.inner.weight[0, 0] = float("nan")
    found = find_non_finite(task.model, lambda: pytest.fail("there is no need to run"))
    assert found.name == "inner.weight"
    assert "1 NaN" in str(found)


def test_nothing_is_found_where_nothing_is_wrong():
    task = TinyTask()

    def run():
        batch = task.collate([0, 1])
        loss = task.predict(batch, batch.target[:, :-1], batch.target[:, 1:] != 0).sum()
        loss.backward()
        return loss

    assert find_non_finite(task.model, run) is None
    assert not task.model.norm._forward_hooks


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("where", ["task", "tensors", "record"])
def test_a_full_disk_stops_with_step_and_last_good_checkpoint(tmp_path, monkeypatch, where):
    run = RunFolder(tmp_path)
    trainer(run, max_steps=20, checkpoint_every=10).fit()
    before = (run.last() / "training.json").read_bytes()
    task = TinyTask()
    training = trainer(run, task, max_steps=100, checkpoint_every=10)
    record = json.loads(before)
    record["state"]["finished"] = None
    (run.last() / "training.json").write_text(json.dumps(record))
    if where == "task":
        monkeypatch.setattr(task, "save", full)
    elif where == "tensors":
        monkeypatch.setattr(checkpoint, "save_file", full)
    else:
        monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(TrainingStopped, match=r"disk[\s\S]*step 30[\s\S]*step-00000020"):
        training.fit()
    monkeypatch.undo()
    assert run.checkpoints.steps() == [10, 20]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] != []
    assert not list((tmp_path / "checkpoints").glob(".*")), "half a checkpoint is left"
    # With room again, the same command goes on.
    assert trainer(run, max_steps=40, checkpoint_every=10).fit().step == 40


def test_a_full_disk_is_recognised_in_what_the_system_and_safetensors_raise():
    seen = "Error while serializing: I/O error: No space left on device (os error 28)"
    assert is_disk_full(SafetensorError(seen))
    assert is_disk_full(OSError(errno.EDQUOT, "Disk quota exceeded"))
    assert not is_disk_full(SafetensorError("Error while serializing: I/O error (os error 5)"))
    assert not is_disk_full(ValueError("os error 28"))


def test_other_errors_are_not_called_a_full_disk(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(checkpoint, "save_file", broken)
    with pytest.raises(OSError, match="Input/output"):
        trainer(tmp_path, max_steps=5).fit()
