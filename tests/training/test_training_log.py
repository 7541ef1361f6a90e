import builtins
import importlib.util
import json

import pytest

from gnomon.errors import RunError
from gnomon.training.events import LogRecord, StartRecord
from gnomon.training.log import MetricsLog, TensorBoardLog, read_metrics
from training.tiny_task import trainer


def start(step):
    return StartRecord(step=step, total_steps=100, precision="", parameter_groups="")


def log_line(step):
    return LogRecord(
        step=step,
        epoch=0,
        loss=1 / 3,
        nll=0.1,
        perplexity=1.1,
        accuracy=None,
        learning_rate=1e-3,
        gradient_norm=1.0,
        num_tokens=10,
        tokens_per_second=5.0,
        data_share=0.0,
        eta_seconds=1.0,
    )


def write(path, first_step, *steps):
    log = MetricsLog(path)
    log.on_start(start(first_step))
    for step in steps:
        log.on_log(log_line(step))
    log.close()


def test_no_step_appears_twice_after_a_restart(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, 0, 10, 20, 30)
    before = path.read_text().splitlines()
    write(path, 20, 30, 40)
    assert [line["step"] for line in read_metrics(path)] == [10, 20, 30, 40]
    assert path.read_text().splitlines()[:2] == before[:2]


def test_half_a_line_left_by_a_crash_is_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, 0, 10, 20)
    with path.open("a") as file:
        file.write('{"kind": "train", "step": 2')
    assert [line["step"] for line in read_metrics(path)] == [10, 20]
    write(path, 20, 30)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [10, 20, 30]


def test_a_training_from_the_start_empties_the_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, 0, 10, 20)
    write(path, 0, 10)
    assert [line["step"] for line in read_metrics(path)] == [10]


def test_tensorboard_curves_can_be_read_back_and_are_purged_on_restart(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "tensorboard"
    for max_steps in (20, 40):
        trainer(
            tmp_path / str(max_steps),
            max_steps=20,
            log_every=5,
            validate_every=10,
            validate=lambda step: {"nll": 2.0, "bleu": 30.0},
            listeners=[TensorBoardLog(folder)],
        ).fit()
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    assert {"train/loss", "train/learning_rate", "validation/bleu"} <= set(tags)
    assert [e.step for e in accumulator.Scalars("train/loss")] == [5, 10, 15, 20]


def test_a_missing_tensorboard_gives_the_line_to_type(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RunError, match="pip install tensorboard"):
        TensorBoardLog(tmp_path)


def test_tensorboard_is_not_imported_before_training_starts(tmp_path, monkeypatch):
    imported = []
    original = builtins.__import__

    def spy(name, *arguments, **keywords):
        imported.append(name)
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", spy)
    TensorBoardLog(tmp_path)
    assert not any("tensorboard" in name for name in imported)
