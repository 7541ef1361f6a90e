"""Trainings on one or several gloo ranks of this machine, for `distributed.py` and `killed.py`."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import torch
import torch._dynamo  # the ranks are forked, so that nothing heavy is imported by each anew
import torch.distributed as dist
import torch.distributed.checkpoint
import torch.distributed.fsdp

from gnomon import api
from gnomon.training import Listener, StartRecord

FORK = multiprocessing.get_context("fork")
RECIPE = """
name = "ranks"
[tokenizer]
vocab_size = 300
split_digits = true
[model]
d_model = {width}
num_encoder_layers = 1
num_decoder_layers = 1
attention.num_heads = 2
norm.placement = "pre"
[schedule]
kind = "inverse_sqrt"
peak = 2e-3
warmup_steps = 50
[training]
precision = "fp32"
threads = 1
tokens_per_batch = 400
log_every = 1
validate_every = 100
monitor_every = 0
[evaluation]
metrics = ["exact_match"]
validation_lines = 8
[distributed]
heartbeat_seconds = 0
"""


def write_task(folder: Path, *, width: int, num_pairs: int = 3000) -> None:
    """Digit strings and the same backwards, and a recipe."""
    draw = random.Random(1)
    rows = ["".join(draw.choices("0123456789", k=draw.randint(2, 16))) for _ in range(num_pairs)]
    (folder / "pairs.tsv").write_text("".join(f"{row}\t{row[::-1]}\n" for row in rows))
    (folder / "recipe.toml").write_text(RECIPE.format(width=width))


class Began(Listener):
    """Says to another process that the first step comes."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def on_start(self, record: StartRecord) -> None:
        """Rank 0 hears it."""
        self._event.set()


def train(folder: Path, run: str, *overrides: str, listeners: Sequence[Listener] = ()) -> None:
    """Train as this rank."""
    api.train(
        folder / "recipe.toml",
        data=folder / "pairs.tsv",
        run=folder / run,
        overrides=overrides,
        listeners=listeners,
        check=False,
    )


def started(folder: Path, size: int, work: Callable[[], object]) -> list[ForkProcess]:
    """`work` on so many ranks, each a process; one rank knows of no others."""
    meeting = folder / f"meeting-{random.getrandbits(64):x}"

    def body(rank: int) -> None:
        torch.set_num_threads(1)
        if size > 1:
            address = f"file://{meeting}"
            dist.init_process_group("gloo", init_method=address, rank=rank, world_size=size)
        work()
        if size > 1:
            dist.destroy_process_group()

    ranks = [FORK.Process(target=body, args=(rank,)) for rank in range(size)]
    for process in ranks:
        process.start()
    return ranks


def finish(ranks: list[ForkProcess]) -> None:
    """Wait for all; they must end well."""
    for process in ranks:
        process.join()
    if any(process.exitcode for process in ranks):
        raise SystemExit("a rank failed; it says why above")
