"""How much of the machine a training uses is counted from what its texts are, and said."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from digits import write_digits
from document_training import train as train_documents
from gnomon.model.flops import Flops
from gnomon.tasks import TranslationTask
from gnomon.tasks.packing import PackedRows, RowSpec
from gnomon.training import Listener, LogRecord, StepRecord, read_metrics
from gnomon.training.events import StepRecord as Step
from gnomon.training.meter import Meter
from gnomon.training.precision import FORMATS, Format
from gnomon.training.state import TrainingState
from gnomon.training.utilisation import Work, Workload, matmul_ceiling
from small_training import RECIPE, opened
from training.tiny_task import trainer


@pytest.fixture
def digits_task(tmp_path: Path) -> TranslationTask:
    data = write_digits(tmp_path)
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE)
    return opened(recipe, data, tmp_path / "run", "data.variants=1", "tokenizer.bpe_dropout=0")


def step(number: int, work: Work | None) -> StepRecord:
    return Step(
        step=number,
        epoch=0,
        loss=1.0,
        nll=1.0,
        learning_rate=0.1,
        gradient_norm=1.0,
        num_tokens=10,
        num_correct=None,
        seconds=0.5,
        data_seconds=0.1,
        work=work,
    )


def test_operations_a_second_by_the_ceiling() -> None:
    meter = Meter(log_every=2, ceiling=lambda: 100.0)
    assert meter.add(step(1, Work(20.0, 30.0)), TrainingState(), 0.0) is None
    record = meter.add(step(2, Work(40.0, 50.0)), TrainingState(), 0.0)
    assert record is not None
    assert record.utilisation == pytest.approx(0.6)
    assert record.padded_utilisation == pytest.approx(0.8)


def test_a_foreign_network_is_not_counted(tmp_path: Path) -> None:
    assert Workload.of(trainer(tmp_path).task, 1) is None
    meter = Meter(log_every=1, ceiling=lambda: math.nan)
    record = meter.add(step(1, None), TrainingState(), 0.0)
    assert record is not None
    assert record.utilisation is None


@pytest.mark.parametrize("precision", FORMATS)
def test_every_format_has_a_ceiling(precision: Format) -> None:
    assert matmul_ceiling(torch.device("cpu"), precision) > 1e6


def test_measuring_the_ceiling_draws_nothing() -> None:
    before = torch.get_rng_state()
    cpu = torch.device("cpu")
    assert matmul_ceiling(cpu, "fp32") > 1e8
    assert matmul_ceiling(cpu, "fp32") == matmul_ceiling(cpu, "fp32")
    assert torch.equal(before, torch.get_rng_state())


def test_a_training_says_it_and_counts_its_own_batches(tmp_path: Path) -> None:
    class Keep(Listener):
        def __init__(self) -> None:
            self.steps: list[StepRecord] = []
            self.logs: list[LogRecord] = []

        def on_step(self, record: StepRecord) -> None:
            self.steps.append(record)

        def on_log(self, record: LogRecord) -> None:
            self.logs.append(record)

    keep, tasks = Keep(), []
    settings = ["training.max_steps=4", "training.log_every=2", "training.monitor_every=0"]
    trained = train_documents(
        tmp_path,
        "language_model",
        *settings,
        listeners=[keep],
        before_start=tasks.append,
        check=False,
    )
    task = tasks[0]
    flops, first = Flops(task.model), task.epoch(0)[0][0]
    expected = flops(task.lengths(first), keep.steps[0].num_tokens).total
    assert keep.steps[0].work == Work(expected, expected)  # nothing is padded
    lines = list(read_metrics(trained.run / "metrics.jsonl"))
    logged = [line["utilisation"] for line in lines if line["kind"] == "train"]
    assert logged == [record.utilisation for record in keep.logs]
    assert 0 < logged[0] <= 1.5


def test_lengths_are_those_of_the_batch(digits_task: TranslationTask) -> None:
    spec = digits_task.epoch(0)[0][0]
    lengths, batch = digits_task.lengths(spec), digits_task.collate(spec)
    assert lengths.source.tolist() == (batch.source != 0).sum(1).tolist()
    assert lengths.target is not None
    assert lengths.target.tolist() == (batch.target[:, 1:] != 0).sum(1).tolist()
    assert lengths.padded().num_tokens == batch.source.numel() + batch.target[:, 1:].numel()


class Stream:
    """Documents of 3, 4 and 2 tokens."""

    starts = np.array([0, 3, 7])
    ids = np.arange(9)

    def __len__(self) -> int:
        return 9

    def release(self) -> None: ...


def test_documents_of_packed_rows() -> None:
    rows = PackedRows(Stream(), 5)  # type: ignore[arg-type]
    assert rows.document_lengths(RowSpec(0, np.array([0]))).tolist() == [3, 2]
    # The second row goes round: the rest of the second, the third, the begin of the first.
    assert rows.document_lengths(RowSpec(0, np.array([1]))).tolist() == [2, 2, 1]
    assert rows.document_lengths(RowSpec(0, np.array([0, 1]))).tolist() == [3, 2, 2, 2, 1]
