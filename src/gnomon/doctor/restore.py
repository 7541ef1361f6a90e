"""Leaves everything as it was: generators, modes, weights, buffers, gradients, optimizer, flags."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from gnomon.doctor.as_found import Weights, has_values
from gnomon.doctor.facts.training.schedules import kept_groups, put_back_groups
from gnomon.doctor.settings import settings_kept

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
    kept = _Kept(module, weights) if module is not None else None
    with settings_kept(), torch.random.fork_rng(devices=cuda):
        random.seed(_SEED)
        np.random.seed(_SEED % 2**32)
        torch.manual_seed(_SEED)
        try:
            yield
        finally:
            if kept is not None:
                kept.put_back()
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
            if buffer is not None and has_values(buffer)
        }
        self.gradients = {p: p.grad for p in module.parameters() if not is_lazy(p)}
        self.flags = {p: p.requires_grad for p in self.gradients}
        self.weights = Weights(module.parameters()) if weights else None
        for parameter in self.gradients:
            parameter.grad = None

    def put_back(self) -> None:
        for each, mode in self.modes.items():
            each.training = mode
        for (owner, name), (buffer, value) in self.buffers.items():
            owner._buffers[name] = buffer
            with torch.inference_mode(buffer.is_inference()), torch.no_grad():
                if not torch.equal(buffer, value):
                    buffer.copy_(value)
        if self.weights is not None:
            self.weights.put_back()
        for parameter, flag in self.flags.items():
            if parameter.requires_grad != flag:
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
                _put_back_states(optimizer, states)
                put_back_groups(optimizer, groups)


def _states(optimizer: Optimizer) -> dict[Any, Any]:
    """Each parameter's state beside a copy of it; the parameters themselves stay the keys."""
    return {
        parameter: (state, copy.deepcopy(state)) for parameter, state in optimizer.state.items()
    }


def _put_back_states(optimizer: Optimizer, kept: dict[Any, Any]) -> None:
    """The same tensors with their old values: others may point at them."""
    optimizer.state.clear()
    for parameter, (state, before) in kept.items():
        optimizer.state[parameter] = state
        if not isinstance(state, dict):
            optimizer.state[parameter] = before
            continue
        for name in set(state) - set(before):
            del state[name]
        for name, value in before.items():
            now = state.get(name)
            if (
                isinstance(now, Tensor)
                and isinstance(value, Tensor)
                and (now.shape, now.dtype) == (value.shape, value.dtype)
            ):
                with torch.no_grad():
                    now.copy_(value)
            else:
                state[name] = value
