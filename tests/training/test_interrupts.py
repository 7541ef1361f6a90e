import json
import multiprocessing
import os
import shutil
import signal
import threading
import time

import pytest
import torch

from gnomon.model import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    Transformer,
    TransformerConfig,
)
from gnomon.training.events import Listener
from gnomon.training.interrupts import Interrupts
from gnomon.training.run import RunFolder
from training.tiny_task import TinyTask, trainer

FORK = multiprocessing.get_context("fork")


class Kill(Listener):
    """Sends this process signals at one step."""

    def __init__(self, step, *numbers):
        self.step, self.numbers = step, numbers

    def on_step(self, record):
        if record.step == self.step:
            for number in self.numbers:
                os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_finishes_the_step_saves_and_leaves(tmp_path, number, code):
    outcome = trainer(tmp_path, max_steps=50, listeners=[Kill(17, number)]).fit()
    assert (outcome.reason, outcome.step, outcome.exit_code) == ("interrupted", 17, code)
    assert not outcome.finished
    assert RunFolder(tmp_path).checkpoints.steps() == [17]
    assert RunFolder(tmp_path).state().finished is None


@pytest.mark.parametrize("step", [17, 20])
def test_the_continued_training_equals_the_uninterrupted_one(tmp_path, step):
    """Also where a validation is due at the very step of the signal: it is made up for."""
    validations = {"whole": [], "stopped": []}

    def settings(name):
        def validate(step):
            validations[name].append(step)
            return {"nll": abs(step - 20.0)}

        return {"max_steps": 50, "validate_every": 10, "checkpoint_every": 25, "validate": validate}

    trainer(tmp_path / "whole", **settings("whole")).fit()
    trainer(
        tmp_path / "stopped", **settings("stopped"), listeners=[Kill(step, signal.SIGINT)]
    ).fit()
    trainer(tmp_path / "stopped", **settings("stopped")).fit()
    assert validations["whole"] == validations["stopped"]
    whole, stopped = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "stopped")
    for file in ("model.safetensors", "training.safetensors"):
        assert (whole.last() / file).read_bytes() == (stopped.last() / file).read_bytes()
    assert whole.best().name == stopped.best().name == "step-00000020"
    assert (whole.best() / "model.safetensors").read_bytes() == (
        stopped.best() / "model.safetensors"
    ).read_bytes()


class DecoderTask(TinyTask):
    """The same sequences for a real Transformer with every dropout there is."""

    def __init__(self, *, sparse):
        super().__init__()
        torch.manual_seed(1)
        self.model = Transformer(
            TransformerConfig(
                family="decoder",
                vocab_size=16,
                d_model=16,
                num_decoder_layers=2,
                attention=AttentionConfig(num_heads=2, dropout=0.2),
                feedforward=FeedForwardConfig(size=32, dropout=0.2),
                embedding=EmbeddingConfig(sparse_gradient=sparse),
                dropout=0.2,
                tie="none" if sparse else "all",
            )
        )

    def predict(self, batch, inputs, keep):
        return self.model.project(self.model.decode(inputs)[keep])


@pytest.mark.parametrize(
    ("precision", "sparse"), [("fp32", False), ("bf16", False), ("fp32", True)]
)
def test_a_real_transformer_continues_bitwise(tmp_path, precision, sparse):
    settings = {"max_steps": 30, "precision": precision, "accumulate": 2}
    trainer(tmp_path / "whole", DecoderTask(sparse=sparse), **settings).fit()
    for step in (7, 19):
        listeners = [Kill(step, signal.SIGTERM)]
        trainer(
            tmp_path / "stopped", DecoderTask(sparse=sparse), **settings, listeners=listeners
        ).fit()
    trainer(tmp_path / "stopped", DecoderTask(sparse=sparse), **settings).fit()
    for file in ("model.safetensors", "training.safetensors"):
        whole = RunFolder(tmp_path / "whole").last() / file
        stopped = RunFolder(tmp_path / "stopped").last() / file
        assert whole.read_bytes() == stopped.read_bytes()


def test_a_second_ctrl_c_leaves_at_once(tmp_path):
    listener = Kill(17, signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path, max_steps=50, listeners=[listener]).fit()
    assert RunFolder(tmp_path).checkpoints.steps() == []
    with RunFolder(tmp_path).lock():
        pass  # and lets go of the run


def test_handlers_are_put_back(tmp_path):
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    trainer(tmp_path, max_steps=2, listeners=[Kill(1, signal.SIGTERM)]).fit()
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_outside_the_main_thread_signals_are_left_alone():
    seen = []

    def body():
        with Interrupts() as interrupts:
            seen.append(interrupts.received)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [None]


def test_sigterm_from_outside(tmp_path):
    """As an orchestrator does it: another process, at no particular moment."""

    def body():
        torch.set_num_threads(1)
        outcome = trainer(tmp_path, TinyTask(), max_steps=10**6, checkpoint_every=10**6).fit()
        os._exit(outcome.exit_code)

    child = FORK.Process(target=body)
    child.start()
    while not (tmp_path / "metrics.jsonl").exists() and child.is_alive():
        time.sleep(0.01)
    time.sleep(0.2)
    child.terminate()
    child.join(30)
    assert child.exitcode == 143
    (step,) = RunFolder(tmp_path).checkpoints.steps()
    assert step > 0


def test_time_left_goes_by_the_pace_since_it_went_on(tmp_path):
    """A run that waited, or came from a slow machine, is not hours from its end."""
    trainer(tmp_path, max_steps=50, listeners=[Kill(17, signal.SIGINT)]).fit()
    (state_file,) = tmp_path.glob("checkpoints/step-*/training.json")
    written = json.loads(state_file.read_text())
    written["state"]["seconds"] = 1e6
    state_file.write_text(json.dumps(written))
    seen = []

    class Watch(Listener):
        def on_log(self, record):
            seen.append(record.eta_seconds)

    trainer(tmp_path, max_steps=50, log_every=5, listeners=[Watch()]).fit()
    assert 0 < max(seen) < 1000
    assert seen[-1] == 0


def test_what_a_kill_left_unpruned_goes_when_it_goes_on(tmp_path):
    """A kill falls between writing a checkpoint and removing the oldest, also at the last step."""
    settings = {"max_steps": 20, "checkpoint_every": 5, "keep_last": 2}
    trainer(tmp_path, **settings).fit()
    checkpoints = RunFolder(tmp_path).checkpoints
    expected = checkpoints.steps()
    shutil.copytree(checkpoints.path(expected[0]), checkpoints.path(1))
    trainer(tmp_path, **settings).fit()
    assert checkpoints.steps() == expected
