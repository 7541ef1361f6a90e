"""Runs a function as several gloo ranks, forked, which costs a third of a second."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # what ranks would import, each for itself, before they begin
import torch.distributed as dist
import torch.distributed.checkpoint
import torch.distributed.fsdp
import torch.distributed.tensor

FORK = multiprocessing.get_context("fork")


def spawned(folder: Path, work: Callable[[int], Any], *, size: int = 2) -> list[tuple[Any, Any]]:
    """(process, the end of a pipe on which its result arrives) of each rank."""
    folder.mkdir(parents=True, exist_ok=True)
    meeting = folder / f"meeting-{len(list(folder.glob('meeting-*')))}"

    def body(rank: int, sender: Any) -> None:
        torch.set_num_threads(1)
        try:
            dist.init_process_group(
                "gloo", init_method=f"file://{meeting}", rank=rank, world_size=size
            )
            sender.send(("done", work(rank)))
            dist.destroy_process_group()
        except BaseException as error:
            sender.send(("raised", f"{error}\n{traceback.format_exc()}"))
            raise SystemExit(1) from error

    found = []
    for rank in range(size):
        receiver, sender = FORK.Pipe(duplex=False)
        child = FORK.Process(target=body, args=(rank, sender))
        child.start()
        sender.close()
        found.append((child, receiver))
    return found


def results(ranks: list[tuple[Any, Any]], *, timeout: float = 120) -> list[tuple[str, Any]]:
    """("done", result), ("raised", message) or ("died", exit code) of each rank."""
    found = []
    for child, receiver in ranks:
        try:
            found.append(receiver.recv() if receiver.poll(timeout) else ("hangs", None))
        except EOFError:
            child.join(timeout)
            found.append(("died", child.exitcode))
    for child, _ in ranks:
        child.join(5)
        child.kill()
    return found


def run_ranks(folder: Path, work: Callable[[int], Any], *, size: int = 2) -> list[Any]:
    """What `work(rank)` returns on each rank; fails where one does not."""
    found = results(spawned(folder, work, size=size))
    assert all(kind == "done" for kind, _ in found), "\n\n".join(str(one) for one in found)
    return [value for _, value in found]
