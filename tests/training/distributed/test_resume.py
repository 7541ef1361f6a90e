"""Stopped and continued, several ranks end bitwise where they would have ended."""

import json
import os
import signal

import pytest
import torch
from safetensors.torch import load_file

from gnomon.training import AveragingConfig, DistributedConfig, Listener
from gnomon.training.checkpoint import SHARDS
from gnomon.training.distributed import joined
from gnomon.training.distributed.shards import read_shards
from gnomon.training.run import RunFolder
from training.distributed.ranks import run_ranks
from training.tiny_task import TinyTask, fit_as_rank, trainer

QUIET = {"heartbeat_seconds": 0}
WAYS = {
    "ddp": DistributedConfig(**QUIET),
    "ddp shards": DistributedConfig(sharded_checkpoints=True, **QUIET),
    "fsdp": DistributedConfig(strategy="fsdp", **QUIET),
    "fsdp shards": DistributedConfig(strategy="fsdp", sharded_checkpoints=True, **QUIET),
    "fsdp later": DistributedConfig(
        strategy="fsdp", sharded_checkpoints=True, async_checkpoints=True, **QUIET
    ),
}


def everything(path, step):
    """The weights and states of a checkpoint, whole, whoever wrote it."""
    checkpoint = RunFolder(path).checkpoints.load(step)
    tensors = dict(checkpoint.tensors)
    if checkpoint.shards is not None:
        tensors |= read_shards(checkpoint.shards, torch.nn.Module())
    return tensors | load_file(checkpoint.path / "model.safetensors")


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def validate(task):
    return lambda step: {"nll": float(torch.rand(())) + task.model.inner.weight.sum().item()}


def train(path, distributed, **settings):
    task = TinyTask(dropout=0.3)
    return fit_as_rank(
        path,
        task,
        distributed=distributed,
        averaging=AveragingConfig(kind="ema"),
        validate=validate(task),
        **{"max_steps": 12, "checkpoint_every": 3, "validate_every": 4, **settings},
    )


class Interrupt(Listener):
    """Sends this process a signal during a step."""

    def __init__(self, step):
        self.step = step

    def on_step(self, record):
        if record.step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


class InterruptedTask(TinyTask):
    """The rank that has no listeners is signalled while it reads a batch."""

    left = 0

    def collate(self, spec):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().collate(spec)


@pytest.mark.parametrize("way", WAYS)
def test_a_stopped_training_continues_bit_for_bit(tmp_path, way):
    def work(rank):
        train(tmp_path / "whole", WAYS[way])
        outcome = train(tmp_path / "parts", WAYS[way], listeners=[Interrupt(5)])
        assert (outcome.step, outcome.exit_code) == (5, 143)
        return train(tmp_path / "parts", WAYS[way])

    run_ranks(tmp_path, work)
    steps = RunFolder(tmp_path / "whole").checkpoints.steps()
    assert RunFolder(tmp_path / "parts").checkpoints.steps() == steps
    for step in steps:
        assert_same(everything(tmp_path / "parts", step), everything(tmp_path / "whole", step))
    last = RunFolder(tmp_path / "parts").last()
    assert (last / SHARDS).is_dir() == WAYS[way].sharded_checkpoints
    record = json.loads((last / "training.json").read_text())
    assert record["num_ranks"] == 2
    assert record["state"]["best"] == RunFolder(tmp_path / "whole").state().to_json()["best"]


def test_a_signal_to_any_rank_stops_all_at_the_same_step(tmp_path):
    def work(rank):
        task = InterruptedTask()
        task.left = 4 if rank == 1 else 0
        return fit_as_rank(tmp_path / "run", task, max_steps=50).step

    assert run_ranks(tmp_path, work) == [4, 4]
    assert RunFolder(tmp_path / "run").checkpoints.steps() == [4]


@pytest.mark.parametrize("way", ["ddp", "fsdp", "fsdp shards"])
def test_weights_and_states_survive_two_ranks_one_rank_two_ranks(tmp_path, way):
    """Read and written again by other numbers of ranks, nothing changes."""
    path = tmp_path / "run"

    def written_again(world):
        task = TinyTask(seed=7)  # other weights, which must not matter
        settings = {"averaging": AveragingConfig(kind="ema"), "distributed": WAYS[way]}
        keeper = trainer(path, task, world=world, **settings).keeper
        checkpoint, _ = keeper.restore()
        keeper.save(checkpoint.state)
        keeper.settle(wait=True)

    def by_two(rank):
        with joined(WAYS[way], torch.device("cpu"), path) as world:
            written_again(world)

    run_ranks(tmp_path, lambda rank: train(path, WAYS[way], max_steps=5))
    expected = everything(path, 5)
    of_rank_1 = expected.pop("generator/cpu/rank-1")
    with joined(WAYS[way], torch.device("cpu"), path) as alone:
        written_again(alone)
    assert_same(everything(path, 5), expected)
    run_ranks(tmp_path, by_two)
    found = everything(path, 5)
    assert not torch.equal(found.pop("generator/cpu/rank-1"), of_rank_1)  # begins anew
    assert_same(found, expected)


@pytest.mark.parametrize("way", ["ddp", "fsdp shards"])
def test_checkpoints_are_averaged_by_one_rank(tmp_path, way):
    settings = {"checkpoint_every": 2, "keep_last": 9, "max_steps": 6}
    averaging = AveragingConfig(kind="last", count=3)

    def work(rank):
        task = TinyTask()
        seen = []

        def validate(step):
            seen.append(task.model.inner.weight.sum().item())
            return {"nll": seen[-1]}

        settings["validate"] = validate
        fit_as_rank(tmp_path / "run", task, averaging=averaging, distributed=WAYS[way], **settings)
        return len(seen)

    assert run_ranks(tmp_path, work) == [2, 0]  # at the end, and of the average
    run = RunFolder(tmp_path / "run")
    members = [everything(tmp_path / "run", step)["inner.weight"] for step in (2, 4, 6)]
    averaged = load_file(run.checkpoints.averaged_path / "model.safetensors")["inner.weight"]
    torch.testing.assert_close(averaged, torch.stack(members).mean(dim=0))
    assert not (run.checkpoints.averaged_path / SHARDS).exists()


def test_fewer_ranks_with_more_accumulation_go_on_alike(tmp_path):
    settings = {"checkpoint_every": 4, "keep_last": 9}

    def two(rank):
        fit_as_rank(tmp_path / "run", TinyTask(dropout=0.0), max_steps=4, **settings)
        fit_as_rank(tmp_path / "two", TinyTask(dropout=0.0), max_steps=8, **settings)

    run_ranks(tmp_path, two)
    for file in (tmp_path / "run" / "checkpoints/step-00000004").glob("training.json"):
        record = json.loads(file.read_text())
        record["state"]["finished"] = None
        file.write_text(json.dumps(record))
    trainer(tmp_path / "run", TinyTask(dropout=0.0), max_steps=8, accumulate=2, **settings).fit()
    found, expected = everything(tmp_path / "run", 8), everything(tmp_path / "two", 8)
    for name in found.keys() & expected.keys():
        if not name.startswith("generator"):
            torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-5)
