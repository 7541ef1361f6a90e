"""Several ranks, from the recipe to a translator that anyone can load; through torchrun, too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import gnomon
from digits import DIGITS_RECIPE, write_digits
from gnomon import api
from gnomon.training import RunFolder
from training.distributed.ranks import run_ranks

QUIET = ["distributed.heartbeat_seconds=0", "training.monitor_every=0"]


@pytest.fixture
def given(tmp_path: Path) -> Path:
    write_digits(tmp_path)
    (tmp_path / "recipe.toml").write_text(DIGITS_RECIPE)
    return tmp_path


def train(given: Path, run: str, *overrides: str) -> api.Training:
    return api.train(
        given / "recipe.toml",
        data=given / "digits.tsv",
        run=given / run,
        overrides=["training.max_steps=6", *overrides],
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(RunFolder(run).last() / "model.safetensors")


WAYS = {
    "ddp": [],
    "selective": ["memory.recompute=selective"],
    "fsdp": ["distributed.strategy=fsdp"],
    "recomputed": ["distributed.strategy=fsdp", "memory.recompute=full"],
}


def test_ranks_train_the_translator_that_accumulation_trains(given: Path) -> None:
    same = [*QUIET, "model.dropout=0"]
    one = train(given, "one", *same, "training.accumulate=2")
    expected = weights(one.run)
    for way, overrides in WAYS.items():
        options = [*same, *overrides]
        assert run_ranks(given, lambda rank, w=way, o=options: train(given, w, *o).rank) == [0, 1]
        found = weights(given / way)
        assert found.keys() == expected.keys()
        tables = [name for name in found if name.startswith("tables.")]
        assert len(tables) == 1, "the tie came apart"
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5, msg=name)
    assert len(gnomon.load(given / "fsdp").translate(["12", "345"])) == 2


def test_a_run_goes_on_with_half_the_ranks_and_twice_the_accumulation(given: Path) -> None:
    options = [*QUIET, "training.max_minutes=1e-9"]
    run_ranks(given, lambda rank: train(given, "run", *options).rank)
    with pytest.raises(gnomon.errors.RunError, match=r"training\.accumulate: 1 → 3"):
        train(given, "run", *options, "training.accumulate=3")
    again = train(given, "run", *options, "training.accumulate=2")
    assert again.outcome.reason == "max_minutes"


@pytest.mark.timeout(3000)
def test_torchrun_stops_and_restarts_without_a_trace(given: Path) -> None:
    """SIGTERM to torchrun saves; a killed rank begins again; the end is that of a whole run."""
    overrides = ["training.max_steps=40", "distributed.heartbeat_seconds=0.2"]
    overrides += ["training.checkpoint_every=5", "training.monitor_every=0"]
    run_ranks(given, lambda rank: train(given, "whole", *overrides).rank)

    first = torchrun(given, overrides)
    rank_1 = beat_of(given / "run", rank=1, step=4)
    first.send_signal(signal.SIGTERM)
    assert first.wait(900) != 0
    step = RunFolder(given / "run").state().step
    assert rank_1["step"] <= step < 40

    second = torchrun(given, overrides, "--max-restarts", "1")
    os.kill(beat_of(given / "run", rank=1, step=step + 7)["pid"], signal.SIGKILL)
    assert second.wait(900) == 0
    found, expected = weights(given / "run"), weights(given / "whole")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def torchrun(given: Path, overrides: list[str], *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--local-addr", "127.0.0.1", "--nproc-per-node", "2", *options, "-m", "--"]
    command += ["gnomon", "train", "recipe.toml", "--data", "digits.tsv", "--run", "run"]
    for each in overrides:
        command += ["--set", each]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=given, env=environment, stderr=subprocess.DEVNULL)


def beat_of(run: Path, *, rank: int, step: int) -> dict[str, int]:
    """The sign of life of a rank that has come to a step."""
    until = time.monotonic() + 900
    while time.monotonic() < until:
        try:
            beat: dict[str, int] = json.loads((run / f"heartbeat/rank-{rank}.json").read_text())
        except (OSError, ValueError):
            beat = {"step": -1}
        if beat["step"] >= step:
            return beat
        time.sleep(0.05)
    raise AssertionError(f"rank {rank} never came to step {step}")
