"""From the environment that torchrun sets to a world of ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from gnomon.errors import RecipeError, TrainingStopped
from gnomon.training.distributed.config import DistributedConfig
from gnomon.training.distributed.heartbeat import Heartbeat
from gnomon.training.distributed.world import World

HEARTBEAT_FOLDER = "heartbeat"
_WHILE_FIRST_WORKS = timedelta(days=7)  # others wait for what rank 0 prepares or validates


def own_rank() -> int:
    """The number of this process among those that torchrun started; 0 without it."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdecimal() and _size_in_environment() > 1 else 0


def _size_in_environment() -> int:
    size = os.environ.get("WORLD_SIZE", "1")
    return int(size) if size.isdecimal() else 1


@contextmanager
def joined(
    config: DistributedConfig,
    device: torch.device,
    run: Path,
    *,
    warn: Callable[[str], None] = lambda text: None,
) -> Iterator[World]:
    """Within the block this process is one rank of those that torchrun started, or alone.

    A process group that is already there is used and left as it is.

    Args:
        device: where this rank's kind computes.
        run: folder that all ranks see.
        warn: told which ranks are behind, from a thread.

    Raises:
        RecipeError: the backend does not fit the device, or the environment lacks something.
        TrainingStopped: the ranks do not find each other.
    """
    alone = _size_in_environment() == 1 and not (dist.is_available() and dist.is_initialized())
    if alone:
        yield World()
        return
    with ExitStack() as leaving:
        timeout = timedelta(minutes=config.timeout_minutes)
        if not dist.is_initialized():
            _join(_backend(config, device), timeout)
            leaving.callback(dist.destroy_process_group)
        rank, size = dist.get_rank(), dist.get_world_size()
        prompt = dist.new_group(backend="gloo", timeout=timeout)
        patient = dist.new_group(backend="gloo", timeout=_WHILE_FIRST_WORKS)
        saving = None
        if config.sharded_checkpoints:
            saving = dist.new_group(backend="gloo", timeout=_WHILE_FIRST_WORKS)
        heartbeat = None
        if config.heartbeat_seconds:  # only now that rank 0 is here, whose folder it is
            folder, every = run / HEARTBEAT_FOLDER, config.heartbeat_seconds
            heartbeat = leaving.enter_context(Heartbeat(folder, rank, size, every=every, warn=warn))
        yield World(
            rank,
            size,
            int(os.environ.get("LOCAL_RANK", rank)),
            prompt=prompt,
            patient=patient,
            saving=saving,
            heartbeat=heartbeat,
        )


def _backend(config: DistributedConfig, device: torch.device) -> str:
    wanted = config.backend
    if wanted == "auto":
        wanted = "nccl" if device.type == "cuda" else "gloo"
    if wanted == "nccl" and (device.type != "cuda" or not dist.is_nccl_available()):
        raise RecipeError(
            'distributed.backend "nccl" is for NVIDIA GPUs',
            seen=f"training on {device.type}"
            + ("" if dist.is_nccl_available() else ", and this torch is built without nccl"),
            mend='use "auto" or "gloo"',
        )
    return "cpu:gloo,cuda:nccl" if wanted == "nccl" else "gloo"


def _join(backend: str, timeout: timedelta) -> None:
    needed = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if missing := [name for name in needed if not os.environ.get(name)]:
        raise RecipeError(
            "several ranks are started by torchrun, which tells each where the others are",
            seen=f"WORLD_SIZE={os.environ.get('WORLD_SIZE')}, but no {', '.join(missing)}",
            mend="torchrun --standalone --nproc-per-node 2 -m gnomon train RECIPE; or unset "
            "WORLD_SIZE to train alone",
        )
    try:
        store, rank, size = next(rendezvous("env://", timeout=timeout))
        # torchrun's restarts share one store, where the addresses of dead ranks still stand.
        attempt = f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{size}"
        dist.init_process_group(
            backend,
            store=PrefixStore(attempt, store),
            rank=rank,
            world_size=size,
            timeout=timeout,
        )
    except (RuntimeError, ValueError) as error:
        raise TrainingStopped(
            "all ranks must find each other to begin",
            seen=f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} at "
            f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}: "
            + str(error).splitlines()[0],
            mend="see that every machine runs the same torchrun command and reaches that address",
        ) from error
