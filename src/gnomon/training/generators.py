"""The states of the random generators that training draws from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """State of torch's CPU generator and, on a GPU, of that GPU's."""
    states = {"generator/cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["generator/cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_generator_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Put back what `generator_states` returned."""
    torch.set_rng_state(states["generator/cpu"])
    if device.type == "cuda" and "generator/cuda" in states:
        torch.cuda.set_rng_state(states["generator/cuda"], device)


@contextmanager
def generators_untouched(device: torch.device) -> Iterator[None]:
    """Whatever the block draws, training goes on as if it had drawn nothing."""
    states = generator_states(device)
    try:
        yield
    finally:
        restore_generator_states(states, device)
