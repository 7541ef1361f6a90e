import json

import pytest
import torch

from gnomon.errors import RunError
from gnomon.training.checkpoint import Checkpoints
from gnomon.training.events import Listener
from gnomon.training.run import RunFolder
from gnomon.training.state import Best, IntervalSums, TrainingState
from training.tiny_task import TinyTask, trainer


class Messages(Listener):
    def __init__(self):
        self.texts = []

    def on_message(self, level, text):
        self.texts.append(f"{level}: {text}")


def test_the_state_survives_json_exactly():
    state = TrainingState(
        step=7,
        epoch=2,
        batch=3,
        seconds=0.1 + 0.2,
        best=Best("nll", 1 / 3, 5),
        interval=IntervalSums(1e300 / 7, 2 / 3, 11),
        finished="max_steps",
    )
    assert TrainingState.from_json(json.loads(json.dumps(state.to_json()))) == state
    assert TrainingState.from_json(json.loads(json.dumps(TrainingState().to_json()))) == (
        TrainingState()
    )


def saved(folder, *steps):
    checkpoints = Checkpoints(folder)
    for step in steps:
        checkpoints.save(TinyTask(), TrainingState(step=step), {"x": torch.arange(step)})
    return checkpoints


def test_a_checkpoint_is_a_folder_with_everything_and_no_pickle(tmp_path):
    checkpoints = saved(tmp_path, 500)
    path = tmp_path / "step-00000500"
    assert sorted(file.name for file in path.iterdir()) == [
        "model.safetensors",
        "training.json",
        "training.safetensors",
    ]
    loaded = checkpoints.load(500)
    assert loaded.state == TrainingState(step=500)
    assert loaded.tensors["x"].equal(torch.arange(500))


def test_pruning_keeps_the_newest_and_the_best(tmp_path):
    checkpoints = saved(tmp_path, 1, 2, 3, 4, 5)
    checkpoints.prune(keep_last=2, keep={2})
    assert checkpoints.steps() == [2, 4, 5]
    checkpoints.prune(keep_last=9, keep=())
    assert checkpoints.steps() == [2, 4, 5]


def test_other_folders_are_no_checkpoints(tmp_path):
    saved(tmp_path, 3)
    for name in ("step-00000009.tmp", ".step-00000009.abc", "averaged", "step-9"):
        (tmp_path / name).mkdir()
    assert Checkpoints(tmp_path).steps() == [3]


def damage(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors"])
def test_one_flipped_bit_is_found_and_named(tmp_path, file):
    checkpoints = saved(tmp_path, 1)
    damage(tmp_path / "step-00000001" / file)
    with pytest.raises(RunError, match=rf"step-00000001/{file} is damaged"):
        checkpoints.load(1)


def test_a_missing_file_and_an_unreadable_record_are_named(tmp_path):
    checkpoints = saved(tmp_path, 1, 2)
    (tmp_path / "step-00000001/model.safetensors").unlink()
    with pytest.raises(RunError, match="missing"):
        checkpoints.load(1)
    (tmp_path / "step-00000002/training.json").write_text("{")
    with pytest.raises(RunError, match=r"training\.json"):
        checkpoints.load(2)


def test_a_later_format_is_refused_by_its_number(tmp_path):
    checkpoints = saved(tmp_path, 1)
    file = tmp_path / "step-00000001/training.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format_version": 99}))
    with pytest.raises(RunError, match="format 99"):
        checkpoints.load(1)


def weights(path):
    return (RunFolder(path).last() / "model.safetensors").read_bytes()


@pytest.mark.parametrize("keep_last", [1, 3])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_goes_on(tmp_path, keep_last):
    settings = {"max_steps": 60, "checkpoint_every": 10, "keep_last": keep_last}
    trainer(tmp_path / "whole", **settings).fit()
    run = RunFolder(tmp_path / "run")
    trainer(run, **{**settings, "max_steps": 40, "keep_last": 3}).fit()
    damage(run.checkpoints.path(40) / "training.safetensors")
    for step in (20, 30):  # as if training had been under way
        record = json.loads((run.checkpoints.path(step) / "training.json").read_text())
        assert record["state"]["finished"] is None
    messages = Messages()
    trainer(run, **settings, listeners=[messages]).fit()
    (text,) = messages.texts
    assert text.startswith("warning: ")
    assert "step-00000040/training.safetensors is damaged" in text
    assert (run.path / "checkpoints/damaged-step-00000040").is_dir()
    assert run.checkpoints.steps()[-1] == 60
    assert weights(run.path) == weights(tmp_path / "whole")


def test_all_damaged_is_an_error_not_a_new_start(tmp_path):
    trainer(tmp_path, max_steps=20, checkpoint_every=10).fit()
    for path in (tmp_path / "checkpoints").iterdir():
        damage(path / "model.safetensors")
    with pytest.raises(RunError, match="undamaged"):
        trainer(tmp_path, max_steps=30).fit()
    assert len(list((tmp_path / "checkpoints").glob("step-*"))) == 2


def test_another_number_of_threads_is_told(tmp_path):
    trainer(tmp_path, max_steps=20, checkpoint_every=10).fit()
    file = RunFolder(tmp_path).last() / "training.json"
    record = json.loads(file.read_text())
    record["num_threads"] = 77
    file.write_text(json.dumps(record))
    messages = Messages()
    trainer(tmp_path, max_steps=20, listeners=[messages]).fit()
    assert "77 threads" in messages.texts[0]
