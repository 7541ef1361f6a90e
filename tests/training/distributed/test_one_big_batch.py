"""Two ranks take the steps that one takes with twice the micro-batches."""

import pytest
import torch
from safetensors.torch import load_file

from gnomon.training import DistributedConfig, OptimizerConfig, read_metrics
from gnomon.training.distributed import World
from gnomon.training.distributed.generators import seed_rank
from gnomon.training.run import RunFolder
from training.distributed.ranks import results, run_ranks, spawned
from training.tiny_task import TinyTask, fit_as_rank, trainer

STRATEGIES = [
    DistributedConfig(heartbeat_seconds=0),
    DistributedConfig(heartbeat_seconds=0, strategy="fsdp"),
]


def weights(path):
    return load_file(RunFolder(path).last() / "model.safetensors")


def states(path):
    return load_file(RunFolder(path).last() / "training.safetensors")


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize("distributed", STRATEGIES, ids=lambda each: each.strategy)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_ranks_equal_accumulation(tmp_path, distributed, accumulate):
    """Also where the data ends with fewer batches than ranks: 15 of them in each epoch."""
    settings = {"max_epochs": 1, "log_every": 2, "optimizer": OptimizerConfig(clip_norm=0.05)}
    task = TinyTask(dropout=0.0)
    trainer(tmp_path / "one", task, accumulate=2 * accumulate, **settings).fit()

    def train(rank):
        task = TinyTask(dropout=0.0)
        fit_as_rank(
            tmp_path / "two", task, accumulate=accumulate, distributed=distributed, **settings
        )

    run_ranks(tmp_path, train)
    assert_close(weights(tmp_path / "two"), weights(tmp_path / "one"))
    moments = {n: t for n, t in states(tmp_path / "two").items() if n.startswith("exp_avg")}
    assert_close(moments, {n: states(tmp_path / "one")[n] for n in moments})
    curves = [figures(tmp_path / name) for name in ("one", "two")]
    assert len(curves[0]) == len(curves[1]) > 1
    for first, second in zip(*curves, strict=True):
        assert second == pytest.approx(first, rel=1e-5)


def figures(path):
    names = ("step", "epoch", "loss", "nll", "accuracy", "gradient_norm", "num_tokens")
    return [{name: line[name] for name in names} for line in read_metrics(path / "metrics.jsonl")]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_layers_that_only_some_passes_drop_stay_alike_on_all_ranks(tmp_path, accumulate):
    def train(rank):
        task = TinyTask(dropout=0.1, layer_drop=0.5)
        fit_as_rank(tmp_path / "run", task, accumulate=accumulate, max_steps=12)
        return {name: tensor.tolist() for name, tensor in task.model.state_dict().items()}

    first, second = run_ranks(tmp_path, train)
    assert first == second


def test_parameters_that_no_pass_uses_are_left_alone(tmp_path):
    def train(rank):
        task = TinyTask()
        task.model.beside = torch.nn.Linear(3, 3)
        before = task.model.beside.weight.detach().clone()
        fit_as_rank(tmp_path / "run", task, max_steps=3)
        return torch.equal(task.model.beside.weight, before)

    assert run_ranks(tmp_path, train) == [True, True]


def test_dropout_differs_between_ranks_and_is_seeded(tmp_path):
    def train(rank):
        for name in ("a", "b"):
            fit_as_rank(tmp_path / name, TinyTask(dropout=0.3), max_steps=4)

    run_ranks(tmp_path, train)
    assert states(tmp_path / "a").keys() == states(tmp_path / "b").keys()
    for name, tensor in states(tmp_path / "a").items():
        assert torch.equal(tensor, states(tmp_path / "b")[name])
    generators = [states(tmp_path / "a")[f"generator/cpu{each}"] for each in ("", "/rank-1")]
    assert not torch.equal(*generators)


def test_each_rank_begins_with_draws_of_its_own():
    def first(rank, seed=1, step=0):
        seed_rank(seed, World(rank, 3), step=step)
        return float(torch.rand((), dtype=torch.float64))

    assert first(0) == float(torch.rand((), dtype=torch.float64, generator=alone()))
    assert len({first(0), first(1), first(2), first(1, seed=2), first(1, step=5)}) == 5


def alone():
    return torch.Generator().manual_seed(1)


def test_a_bad_batch_of_one_rank_stops_all_and_is_named(tmp_path):
    class Poisoned(TinyTask):
        def predict(self, batch, inputs, keep):
            logits = super().predict(batch, inputs, keep)
            return logits * float("nan") if 17 in batch.line_numbers else logits

    def train(rank):
        fit_as_rank(tmp_path / "run", Poisoned(batch_size=1), max_epochs=1)

    found = results(spawned(tmp_path, train))
    assert [kind for kind, _ in found] == ["raised", "raised"]
    for _, message in found:
        assert "Loss and gradients must be finite" in message
        assert "lines [17]" in message
