"""The states of the random generators on every rank."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from gnomon.training.distributed.world import World
from gnomon.training.generators import generator_states, restore_generator_states


def states_of_all_ranks(world: World, device: torch.device) -> dict[str, Tensor]:
    """States on every rank; those of rank 0 have the names they have when it is alone."""
    found: dict[str, Tensor] = {}
    for rank, states in enumerate(world.gather(generator_states(device))):
        found |= {f"{name}{_suffix(rank)}": state for name, state in states.items()}
    return found


def restore_rank(
    states: Mapping[str, Tensor], world: World, device: torch.device, *, seed: int, step: int
) -> None:
    """Put back this rank's states; a rank that has none yet begins as a function of the rest."""
    own = {
        name: states[f"{name}{_suffix(world.rank)}"]
        for name in ("generator/cpu", "generator/cuda")
        if f"{name}{_suffix(world.rank)}" in states
    }
    if own:
        restore_generator_states(own, device)
    else:
        seed_rank(seed, world, step=step)


def seed_rank(seed: int, world: World, *, step: int = 0) -> None:
    """Seed the generators: rank 0 as if it were alone, every other differently."""
    if world.rank:
        digest = hashlib.sha256(f"{seed} {world.rank} {step}".encode()).digest()
        seed = int.from_bytes(digest[:7])
    torch.manual_seed(seed)


def _suffix(rank: int) -> str:
    return f"/rank-{rank}" if rank else ""
