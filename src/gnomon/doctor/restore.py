"""Leaves everything as it was: generators, modes, weights, buffers, gradients, optimizer, flags."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from gnomon.doctor.schedules import kept_groups, put_back_groups

_SEED = 20_170_612  # the examination is the same each time


@contextmanager
def untouched(module: nn.Module | None, *, weights: bool = False) -> Iterator[None]:
    """Run the block under a fixed seed and put back all it may have changed.

    Args:
        module: its modes, buffers and gradients are put back, and each flag of `requires_grad`.
        weights: whether the parameters are kept aside, too (costs their size).
    """
    python, numpy = random.getstate(), np.random.get_state()
    cuda = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    grad_enabled = torch.is_grad_enabled()
    fast_path = torch.backends.mha.get_fastpath_enabled()
    deterministic = torch.are_deterministic_algorithms_enabled()
    backends: Any = torch.backends.cuda
    kernels = (
        backends.flash_sdp_enabled(),
        backends.mem_efficient_sdp_enabled(),
        backends.math_sdp_enabled(),
    )
    kept = _Kept(module, weights) if module is not None else None
    with torch.random.fork_rng(devices=cuda):
        random.seed(_SEED)
        np.random.seed(_SEED % 2**32)
        torch.manual_seed(_SEED)
        try:
            yield
        finally:
            if kept is not None:
                kept.put_back()
            torch.set_grad_enabled(grad_enabled)
            torch.backends.mha.set_fastpath_enabled(fast_path)
            if torch.are_deterministic_algorithms_enabled() != deterministic:
                torch.use_deterministic_algorithms(deterministic)  # imports the compiler
            backends.enable_flash_sdp(kernels[0])
            backends.enable_mem_efficient_sdp(kernels[1])
            backends.enable_math_sdp(kernels[2])
            random.setstate(python)
            np.random.set_state(numpy)


class _Kept:
    def __init__(self, module: nn.Module, weights: bool) -> None:
        self.module = module
        self.modes = {each: each.training for each in module.modules()}
        self.buffers = {
            (each, name): (buffer, buffer.detach().clone())
            for each in module.modules()
            for name, buffer in each._buffers.items()
            if buffer is not None and not buffer.is_meta
        }
        self.gradients = {p: p.grad for p in module.parameters()}
        self.flags = {p: p.requires_grad for p in module.parameters()}
        self.weights = {p: p.detach().clone() for p in module.parameters()} if weights else {}
        for parameter in module.parameters():
            parameter.grad = None

    def put_back(self) -> None:
        for each, mode in self.modes.items():
            each.training = mode
        with torch.no_grad():
            for (owner, name), (buffer, value) in self.buffers.items():
                owner._buffers[name] = buffer
                if not torch.equal(buffer, value):
                    buffer.copy_(value)
            for parameter, value in self.weights.items():
                parameter.copy_(value)
        for parameter, flag in self.flags.items():
            parameter.requires_grad_(flag)
            parameter.grad = self.gradients[parameter]


@contextmanager
def rolled_back(module: nn.Module, optimizer: Optimizer | None, schedule: Any) -> Iterator[None]:
    """As `untouched`, weights, optimizer state and schedule included: real steps can be tried."""
    steps = copy.deepcopy(schedule.state_dict()) if hasattr(schedule, "state_dict") else None
    # Not by `load_state_dict`, which casts states to their parameter's dtype.
    states = _states(optimizer) if optimizer is not None else {}
    groups = kept_groups(optimizer) if optimizer is not None else []
    with untouched(module, weights=True):
        try:
            yield
        finally:
            if steps is not None:
                schedule.load_state_dict(steps)
            if optimizer is not None:
                optimizer.state.clear()
                optimizer.state.update(states)
                put_back_groups(optimizer, groups)


def _states(optimizer: Optimizer) -> dict[Any, Any]:
    """A copy of each parameter's state; the parameters themselves stay the keys."""
    return {parameter: copy.deepcopy(state) for parameter, state in optimizer.state.items()}
