"""What a batch keeps is foreseen from a few of its rows, and nothing moves while it is counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from digits import write_digits
from gnomon.tasks import TranslationTask
from gnomon.training import (
    AveragingConfig,
    MemoryConfig,
    ObjectiveConfig,
    OptimizerConfig,
    footprint,
    projected_loss,
)
from gnomon.training.config import TrainingConfig
from gnomon.training.rehearsal import Rehearsal
from small_training import RECIPE, opened

LARGER = ["model.d_model=64", "model.num_encoder_layers=3", "model.num_decoder_layers=3"]
MEMORY = {
    "kept": MemoryConfig(),
    "selective": MemoryConfig(recompute="selective"),
    "full": MemoryConfig(recompute="full"),
    "int8": MemoryConfig(activations="int8"),
}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> TranslationTask:
    folder = tmp_path_factory.mktemp("rehearsal")
    (folder / "r.toml").write_text(RECIPE)
    data = write_digits(folder)
    return opened(
        folder / "r.toml", data, folder / "run", *LARGER, "training.tokens_per_batch=4000"
    )


def rehearsed(task: TranslationTask, **changes: Any) -> Rehearsal:
    tables: dict[str, Any] = {
        "training": TrainingConfig(precision="fp32", device="cpu"),
        "objective": ObjectiveConfig(),
        "optimizer": OptimizerConfig(),
        "averaging": AveragingConfig(),
        "memory": MemoryConfig(),
    }
    return Rehearsal(task, **(tables | changes))


@pytest.mark.parametrize("in_chunks", [False, True], ids=["whole", "in chunks"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "bf16-master"])
@pytest.mark.parametrize("name", sorted(MEMORY))
def test_what_a_batch_keeps_is_foreseen(
    task: TranslationTask,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    precision: Any,
    in_chunks: bool,
) -> None:
    if in_chunks:
        for module in (projected_loss, footprint):
            monkeypatch.setattr(module, "CHUNK", 40_000)
    training = TrainingConfig(precision=precision, device="cpu")
    found = rehearsed(task, memory=MEMORY[name], training=training)
    spec = task.epoch(0)[0][0]
    real = found.footprint.kept(task.collate(spec))
    # Which tensors are large enough for 8 bits the largest decides: a few rows tell it roughly.
    tolerance = 0.15 if name == "int8" else 0.03
    assert found.footprint.of(spec)(len(spec)) == pytest.approx(real, rel=tolerance)


def test_less_is_kept_with_less_memory(task: TranslationTask) -> None:
    spec = task.epoch(0)[0][0]
    kept = {
        name: rehearsed(task, memory=memory).footprint.of(spec)(len(spec))
        for name, memory in MEMORY.items()
    }
    assert kept["kept"] > 1.5 * kept["selective"]
    assert kept["kept"] > 2 * kept["full"]
    assert kept["kept"] > 2.5 * kept["int8"]


def test_weights_do_not_move(task: TranslationTask) -> None:
    before = [parameter.clone() for parameter in task.model.parameters()]
    found = rehearsed(task, optimizer=OptimizerConfig(weight_decay=0.1))
    seconds, num_labels = found.micro_batch(task.epoch(0)[0][1])
    assert seconds > 0
    assert num_labels == task.collate(task.epoch(0)[0][1]).num_target_tokens
    assert found.update() > 0
    after = list(task.model.parameters())
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_rows_in_a_budget(task: TranslationTask) -> None:
    found = rehearsed(task).footprint.of(task.epoch(0)[0][0])
    assert found.rows_in(10 * found.tokens_per_row + 3) == 10
    assert found.rows_in(1) == 1


def chosen(task: TranslationTask, budget: str) -> tuple[int, int, str]:
    """How many layers are computed again within a budget, what is kept then, and what is said."""
    found = rehearsed(task, memory=MemoryConfig(recompute="budget", budget=budget))
    recomputed = [s.recomputed for s in (task.model.encoder, task.model.decoder) if s is not None]
    spec = task.epoch(0)[0][0]
    assert found.layers_chosen is not None
    kept = found.footprint.of(spec)(len(spec))
    return sum(map(len, recomputed)), kept, found.layers_chosen


def test_as_few_layers_as_the_budget_takes(task: TranslationTask) -> None:
    spec = task.epoch(0)[0][0]
    everything = rehearsed(task).footprint.of(spec)(len(spec))
    counts = []
    for share in (1.01, 0.8, 0.6):
        budget = share * everything
        count, kept, sentence = chosen(task, f"{budget / 1e6:.2f} MB")
        assert kept <= budget
        assert f"{count} of 6 layers" in sentence
        counts.append(count)
    assert counts[0] == 0 < counts[1] < counts[2]
    # One layer less would not do: what the last one saves is more than what is left.
    count, kept, _ = chosen(task, f"{0.6 * everything / 1e6:.2f} MB")
    fewer = chosen(task, f"{(kept + 1) / 1e6 + 0.01:.3f} MB")
    assert fewer[0] == count
    assert chosen(task, f"{kept / 1e6 - 0.01:.3f} MB")[0] == count + 1


def test_a_budget_too_small_is_said(task: TranslationTask) -> None:
    count, _, sentence = chosen(task, "1 MB")
    assert count == 5
    assert sentence.endswith("which takes fewer training.tokens_per_batch")
