import json
import multiprocessing
import os
import signal

import pytest
import torch

from gnomon.errors import RunError
from gnomon.training.run import RunFolder
from gnomon.training.state import Best, TrainingState
from training.tiny_task import TinyTask

FORK = multiprocessing.get_context("fork")


def with_checkpoints(path, *steps, best=None):
    run = RunFolder(path)
    for step in steps:
        state = TrainingState(step=step, best=None if best is None else Best("nll", 1.0, best))
        run.checkpoints.save(TinyTask(), state, {"x": torch.zeros(1)})
    return run


def test_checkpoints_by_name(tmp_path):
    run = with_checkpoints(tmp_path, 5, 10, 15, best=10)
    assert run.resolve().name == run.resolve("best").name == "step-00000010"
    assert run.resolve("last").name == "step-00000015"
    assert run.resolve("step-5").name == run.resolve("step-00000005").name == "step-00000005"


def test_without_validation_the_newest_is_the_best(tmp_path):
    assert with_checkpoints(tmp_path, 5, 10).best().name == "step-00000010"


@pytest.mark.parametrize("name", ["step-7", "newest", "step-", "../x", "step-1/../x", ""])
def test_an_unknown_name_gets_those_there_are(tmp_path, name):
    run = with_checkpoints(tmp_path, 5, 10)
    with pytest.raises(RunError, match=r"best, last, averaged or step-N[\s\S]*step-5, step-10"):
        run.resolve(name)


def test_before_the_first_checkpoint_there_is_nothing_to_use(tmp_path):
    with pytest.raises(RunError, match="checkpoint_every"):
        RunFolder(tmp_path).resolve("best")
    assert RunFolder(tmp_path).state() is None


def test_a_best_checkpoint_that_is_gone_is_named(tmp_path):
    run = with_checkpoints(tmp_path, 5, 10, best=7)
    with pytest.raises(RunError, match="step-00000007 is missing"):
        run.best()


def test_opening_what_is_no_run(tmp_path):
    with pytest.raises(RunError, match=str(tmp_path)):
        RunFolder.open(tmp_path)
    with pytest.raises(RunError, match="does not exist"):
        RunFolder.open(tmp_path / "nowhere")
    with_checkpoints(tmp_path, 1)
    assert RunFolder.open(tmp_path).path == tmp_path
    (tmp_path / "b").mkdir()
    (tmp_path / "b/recipe.toml").write_text("")
    assert RunFolder.open(str(tmp_path / "b")).exists()


def try_to_lock(path):
    """Exit code of another process that tries: 0 locked, 2 refused (the message in a file)."""

    def body():
        try:
            with RunFolder(path).lock():
                os._exit(0)
        except RunError as error:
            (path / "refusal").write_text(str(error))
            os._exit(2)

    child = FORK.Process(target=body)
    child.start()
    child.join()
    return child.exitcode


def test_a_second_writer_is_refused_by_the_pid_of_the_first(tmp_path):
    with RunFolder(tmp_path).lock():
        assert try_to_lock(tmp_path) == 2
        message = (tmp_path / "refusal").read_text()
        assert f'"pid": {os.getpid()}' in message
        assert str(tmp_path) in message
    assert try_to_lock(tmp_path) == 0


def test_a_second_object_in_one_process_is_refused_too(tmp_path):
    with RunFolder(tmp_path).lock(), pytest.raises(RunError, match="Only one process"):
        RunFolder(tmp_path).lock().__enter__()


def test_the_lock_nests_in_one_object_and_opens_at_the_end(tmp_path):
    run = RunFolder(tmp_path)
    with run.lock():
        with run.lock():
            pass
        assert try_to_lock(tmp_path) == 2
    assert try_to_lock(tmp_path) == 0
    with pytest.raises(ZeroDivisionError), run.lock():
        raise ZeroDivisionError
    assert try_to_lock(tmp_path) == 0


def test_a_killed_writer_leaves_no_lock(tmp_path):
    def body():
        RunFolder(tmp_path).lock().__enter__()
        os.kill(os.getpid(), signal.SIGKILL)

    child = FORK.Process(target=body)
    child.start()
    child.join()
    with RunFolder(tmp_path).lock():
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()


def test_reading_needs_no_lock_and_locking_clears_leftovers(tmp_path):
    run = with_checkpoints(tmp_path, 5)
    leftover = tmp_path / "checkpoints/.step-00000010.x1y2"
    leftover.mkdir()
    (leftover / "model.safetensors").write_text("half")
    with run.lock():
        assert not leftover.exists()
        reader = RunFolder.open(tmp_path)
        assert reader.last().name == "step-00000005"
        assert reader.state().step == 5
