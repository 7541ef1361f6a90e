"""A hang names the rank that all others wait for."""

import os
import signal
import time

from gnomon.errors import TrainingStopped
from gnomon.training import DistributedConfig
from gnomon.training.distributed import joined
from gnomon.training.distributed.heartbeat import Heartbeat
from training.distributed.ranks import results, run_ranks, spawned
from training.tiny_task import TinyTask, trainer


class Stuck(TinyTask):
    """Reading the 9th batch takes `seconds`, or for ever."""

    seconds = 0.0
    left = 9

    def collate(self, spec):
        self.left -= 1
        if self.left == 0:
            if self.seconds:
                time.sleep(self.seconds)
            else:
                os.kill(os.getpid(), signal.SIGSTOP)
        return super().collate(spec)


def fit(path, config, task, warned):
    with joined(config, task.model.norm.weight.device, path, warn=warned.append) as world:
        return trainer(path, task, world=world, distributed=config, max_steps=30).fit()


def test_a_stopped_rank_is_named_and_the_others_end(tmp_path):
    config = DistributedConfig(heartbeat_seconds=0.5, timeout_minutes=0.1)
    warned = []

    def work(rank):
        try:
            fit(tmp_path / "run", config, Stuck() if rank == 1 else TinyTask(), warned)
        except Exception as error:
            raise RuntimeError(f"{error}\nwarned: {warned}") from error

    ranks = spawned(tmp_path, work)
    ((kind, message),) = results(ranks[:1])
    ranks[1][0].kill()
    assert kind == "raised"
    said, _, warnings = message.partition("warned: ")
    assert "All ranks must take part in every step" in said
    for text in (said, warnings):
        assert "at step 9" in text
        assert "rank 1 (" in text
    assert "has waited" in warnings


def test_a_rank_that_is_only_slow_is_named_once_and_training_goes_on(tmp_path):
    config = DistributedConfig(heartbeat_seconds=0.5)

    def work(rank):
        warned = []
        task = TinyTask()
        if rank == 1:
            task = Stuck()
            task.seconds = 4.0
        outcome = fit(tmp_path / "run", config, task, warned)
        return outcome.step, [text for text in warned if "rank 1 (" in text]

    (steps, warned), (_, by_itself) = run_ranks(tmp_path, work)
    assert steps == 30
    assert len(warned) == 1
    assert "reading" in warned[0]
    assert not by_itself
    assert not (tmp_path / "run" / "heartbeat").exists()


def test_who_is_behind(tmp_path):
    """Neither a rank that waits at the same step, nor one ahead; one that is silent is."""
    beats = [Heartbeat(tmp_path, rank, 4, every=60, warn=lambda text: None) for rank in range(3)]
    for beat in beats:
        beat.at(7, "computing")
    with beats[0].waiting(), beats[1].waiting():
        beats[1]._write()
        beats[2]._write()
        behind = beats[0].behind().splitlines()
    assert len(behind) == 2
    assert behind[0].startswith("rank 2 (")
    assert "step 7, computing" in behind[0]
    assert behind[1].strip() == "rank 3 has given no sign of life"


def test_a_rank_that_dies_within_a_pass_is_no_traceback(tmp_path):
    class Dies(TinyTask):
        def predict(self, batch, inputs, keep):
            if self.model.training and (tmp_path / "now").exists():
                os.kill(os.getpid(), signal.SIGKILL)
            (tmp_path / "now").touch()
            return super().predict(batch, inputs, keep)

    config = DistributedConfig(heartbeat_seconds=0)

    def work(rank):
        try:
            fit(tmp_path / "run", config, Dies() if rank == 1 else TinyTask(), [])
        except TrainingStopped as error:
            return str(error)

    (kind, message), (died, code) = results(spawned(tmp_path, work))
    assert (kind, died, code) == ("done", "died", -signal.SIGKILL)
    assert "All ranks must take part in every step" in message
