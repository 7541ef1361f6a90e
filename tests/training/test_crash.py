"""Killed at any moment, a training that is started again ends bitwise as if never killed."""

import json
import multiprocessing
import os
import random
import signal
import time

import pytest
import torch

from gnomon import files
from gnomon.training import (
    AveragingConfig,
    MemoryConfig,
    ObjectiveConfig,
    OptimizerConfig,
    checkpoint,
    keeper,
)
from gnomon.training.optimizers import Optimizer
from gnomon.training.run import RunFolder
from training.tiny_task import TinyTask, trainer

# Children are forked: importing torch anew in each would take most of the time.
FORK = multiprocessing.get_context("fork")
NUM_STEPS = 120


def train(path, layer_drop=0.0, **extras):
    task = TinyTask(dropout=0.3, layer_drop=layer_drop)
    trainer(
        path,
        task,
        threads=1,
        max_steps=NUM_STEPS,
        accumulate=2,
        log_every=7,
        validate_every=10,
        checkpoint_every=4,
        keep_last=2,
        validate=lambda step: {"nll": float(torch.rand(())) + task.model.inner.weight.sum().item()},
        **extras,
    ).fit()


def started(path, die_at=None, die_in=None, **extras):
    """A child that trains; it kills itself at disk operation `die_at` (from 1), or in `die_in`."""

    def body():
        torch.set_num_threads(1)
        if die_at is not None:
            _count_down(die_at)
        if die_in is not None:
            setattr(keeper, die_in, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        train(path, **extras)

    child = FORK.Process(target=body)
    child.start()
    return child


def _count_down(operation):
    """SIGKILL this process just before its `operation`-th step of writing a checkpoint."""
    left = operation

    def guarded(function):
        def call(*arguments, **keywords):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **keywords)

        return call

    checkpoint.save_file = guarded(checkpoint.save_file)
    checkpoint.sha256_of = guarded(checkpoint.sha256_of)
    checkpoint.shutil.rmtree = guarded(checkpoint.shutil.rmtree)
    files.sync = guarded(files.sync)
    TinyTask.save = guarded(TinyTask.save)


def finish(path, **extras):
    child = started(path, **extras)
    child.join(60)
    assert child.exitcode == 0


def result(path):
    """Everything a training leaves that is not a time: bytes of weights and states, curves."""
    last = RunFolder(path).last()
    assert last.name == f"step-{NUM_STEPS:08d}"
    record = json.loads((last / "training.json").read_text())
    record["state"].pop("seconds")
    timings = ("tokens_per_second", "data_share", "eta_seconds", "seconds")
    curves = [
        {key: value for key, value in json.loads(line).items() if key not in timings}
        for line in (path / "metrics.jsonl").read_text().splitlines()
    ]
    weights = (last / "model.safetensors").read_bytes()
    states = (last / "training.safetensors").read_bytes()
    averaged = path / "checkpoints/averaged"
    average = {file.name: file.read_bytes() for file in sorted(averaged.glob("*"))}
    return weights, states, record, RunFolder(path).checkpoints.steps(), curves, average


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("uninterrupted")
    trainer(path)  # imports all of torch that children need: they must die training, not importing
    started_at = time.perf_counter()
    finish(path)
    return result(path), time.perf_counter() - started_at


def assert_same(path, expected):
    weights, states, record, steps, curves, average = result(path)
    assert weights == expected[0]
    assert states == expected[1]
    assert record == expected[2]
    assert steps == expected[3]
    assert curves == expected[4]
    assert average == expected[5]
    assert not list((path / "checkpoints").glob(".*")), "leftovers of killed processes"


def kill_at_random_moments(path, seconds, generator, kills, **extras):
    for _ in range(kills):
        child = started(path, **extras)
        child.join(generator.uniform(0.02, seconds))
        child.kill()
        child.join()


def test_two_uninterrupted_runs_are_equal(tmp_path, uninterrupted):
    finish(tmp_path)
    assert_same(tmp_path, uninterrupted[0])


def test_killed_at_random_moments(tmp_path, uninterrupted):
    expected, seconds = uninterrupted
    kill_at_random_moments(tmp_path, seconds / 2, random.Random(), kills=8)
    finish(tmp_path)
    assert_same(tmp_path, expected)


# One checkpoint is some ten operations and every one of them is a place to die.
@pytest.mark.parametrize("operations", [range(1, 15), range(30, 52, 3)])
def test_killed_while_writing_checkpoints(tmp_path, uninterrupted, operations):
    for operation in operations:
        child = started(tmp_path, die_at=operation)
        child.join(60)
        assert child.exitcode in (-signal.SIGKILL, 0)
    finish(tmp_path)
    assert_same(tmp_path, uninterrupted[0])


# Everything that draws or remembers, on top of dropout; of the averages one at a time.
EXTRAS = {
    kind: {
        "layer_drop": 0.3,
        "memory": MemoryConfig(recompute="selective", activations="int8"),
        "objective": ObjectiveConfig(r_drop=5.0),
        "averaging": AveragingConfig(kind=kind)
        if kind == "ema"
        else AveragingConfig(kind=kind, count=3),
    }
    for kind in ("ema", "last", "best")
}
# It has weights to ship beside those to train, and counts of its own.
EXTRAS["schedule_free"] = {
    "optimizer": OptimizerConfig(name="schedule_free"),
    "precision": "bf16-master",
}


@pytest.mark.parametrize("kind", sorted(EXTRAS))
def test_killed_with_every_option_on(tmp_path, uninterrupted, kind):
    if kind == "schedule_free":
        pytest.importorskip("schedulefree")
        Optimizer(TinyTask().model, EXTRAS[kind]["optimizer"])  # imports, as in `uninterrupted`
    extras, seconds = EXTRAS[kind], uninterrupted[1]
    finish(tmp_path / "whole", **extras)
    expected = result(tmp_path / "whole")
    assert expected[1] != uninterrupted[0][1]  # the options do something
    assert bool(expected[5]) == (kind in ("last", "best"))
    path = tmp_path / "killed"
    kill_at_random_moments(path, seconds / 2, random.Random(), kills=5, **extras)
    finish(path, **extras)
    assert_same(path, expected)


@pytest.mark.parametrize("kind", ["best", "last"])
def test_killed_while_averaging(tmp_path, uninterrupted, kind):
    extras, path = EXTRAS[kind], tmp_path / "killed"
    finish(tmp_path / "whole", **extras)
    for moment in ("write_mean", "write_record"):
        child = started(path, die_in=moment, **extras)
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
        assert not (path / "checkpoints/averaged").exists()
    finish(path, **extras)
    assert_same(path, result(tmp_path / "whole"))


def test_the_comparison_can_fail(tmp_path, uninterrupted, monkeypatch):
    """Forget the generators at a restart and the runs part ways."""
    child = started(tmp_path, die_at=200)
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    monkeypatch.setattr("gnomon.training.keeper.restore_rank", lambda *_, **__: None)
    finish(tmp_path)
    assert result(tmp_path)[0] != uninterrupted[0][0]


@pytest.mark.slow
def test_killed_again_and_again(tmp_path, uninterrupted):
    expected, seconds = uninterrupted
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201
    generator = random.Random(seed)
    for attempt in range(12):
        path = tmp_path / str(attempt)
        kill_at_random_moments(path, seconds / 2, generator, kills=generator.randrange(1, 20))
        finish(path)
        assert_same(path, expected)
