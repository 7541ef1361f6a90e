"""What several ranks need, told before they begin."""

import pytest
import torch

from gnomon.errors import RecipeError
from gnomon.model import EmbeddingConfig, Transformer, TransformerConfig
from gnomon.training import DistributedConfig, MemoryConfig, OptimizerConfig
from gnomon.training.distributed import World, choose_parallel, joined
from gnomon.training.objective import Objective, ObjectiveConfig
from gnomon.training.precision import choose_precision
from training.distributed.ranks import results, spawned
from training.tiny_task import PAD, TinyTask, fit_as_rank

CPU = torch.device("cpu")


@pytest.fixture
def two_ranks(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)


def join(tmp_path, config=None):
    with joined(config or DistributedConfig(), CPU, tmp_path) as world:
        return world


def test_one_process_is_alone_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join(tmp_path).size == 1
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert join(tmp_path).size == 1
    assert not list(tmp_path.iterdir())


def test_an_environment_without_a_meeting_place_is_told(tmp_path, two_ranks, monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(RecipeError, match=r"started by torchrun.*\n.*no MASTER_ADDR"):
        join(tmp_path)


def test_nccl_on_a_cpu_is_told(tmp_path, two_ranks):
    with pytest.raises(RecipeError, match='"nccl" is for NVIDIA GPUs'):
        join(tmp_path, DistributedConfig(backend="nccl"))


def test_more_ranks_than_gpus_are_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(RecipeError, match="GPU of its own"):
        World(1, 2, local_rank=1).device(torch.device("cuda"))


def test_more_ranks_than_batches_are_told(tmp_path):
    def train(rank):
        fit_as_rank(tmp_path / "run", TinyTask(num_examples=3), max_epochs=1)

    found = results(spawned(tmp_path, train))
    assert all("each rank needs a batch of its own" in message for _, message in found)


def refused(task=None, *, precision="fp32", strategy="fsdp", compiled=False, **settings):
    task = task or TinyTask()
    with pytest.raises(RecipeError) as caught:
        choose_parallel(
            DistributedConfig(strategy=strategy),
            task,
            Objective(ObjectiveConfig(), pad_id=PAD),
            **{"memory": MemoryConfig(), "optimizer": OptimizerConfig(), **settings},
            precision=choose_precision(precision, CPU),
            compiled=compiled,
            world=World(0, 2),
            device=CPU,
        )
    return str(caught.value)


def test_what_does_not_go_with_shards_is_refused_by_name():
    message = refused(
        TinyTask(layer_drop=0.2),
        memory=MemoryConfig(activations="int8"),
        optimizer=OptimizerConfig(name="lion"),
    )
    assert "training.compile" in refused(compiled=True)
    assert 'recompute = "selective"' in refused(memory=MemoryConfig(recompute="selective"))
    assert all(
        name in message
        for name in ("model.layer_drop", 'activations = "int8"', 'optimizer.name = "lion"')
    )


def test_what_does_not_go_with_ranks_is_refused_by_name():
    assert "bf16-master" in refused(precision="bf16-master", strategy="ddp")
    task = TinyTask()
    embedding = EmbeddingConfig(sparse_gradient=True)
    task.model = Transformer(
        TransformerConfig(vocab_size=9, d_model=8, tie="none", embedding=embedding)
    )
    for strategy in ("ddp", "fsdp"):
        assert "sparse_gradient" in refused(task, strategy=strategy)


@pytest.mark.parametrize(
    ("num_items", "size", "expected"),
    [
        (4, 2, [([0, 2], 2), ([1, 3], 2)]),
        (3, 2, [([0, 2], 2), ([1, 0], 1)]),
        (1, 3, [([0], 1), ([0], 0), ([0], 0)]),
    ],
)
def test_every_rank_makes_the_same_number_of_passes(num_items, size, expected):
    items = list(range(num_items))
    assert [World(rank, size).share_of(items) for rank in range(size)] == expected


def test_impossible_values_are_told():
    config = DistributedConfig(heartbeat_seconds=-1, timeout_minutes=0)
    assert len(config.problems()) == 2
    assert "sharded_checkpoints" in DistributedConfig(async_checkpoints=True).unused()[0]
