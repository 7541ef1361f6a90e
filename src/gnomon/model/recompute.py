"""Marks results that can be made again, for trainings that would rather not keep them.

The model says what could be recomputed and from what; a recorder (`gnomon.training.memory`) decides
what is. Where none is at work these functions call what they are given and do nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import torch
from torch import Tensor

Function = Callable[..., Tensor]


class Recorder(Protocol):
    """Is told how tensors that the backward pass may ask for can be made again."""

    def note(
        self, result: Tensor, function: Function, inputs: tuple[Tensor, ...], *, costly: bool
    ) -> None:
        """`result` is `function(*inputs)`.

        Args:
            result: fills its storage.
            function: draws nothing at random and changes nothing.
            costly: the function is a matrix product, not a pass over memory.
        """
        ...


_recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recording(recorder: Recorder | None) -> Iterator[None]:
    """Tell `recorder` of everything in the block that can be made again."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


def recomputable(function: Function, *inputs: Tensor, costly: bool = False) -> Tensor:
    """`function(*inputs)`, which may be made again when the backward pass needs it."""
    result = function(*inputs)
    if torch.compiler.is_compiling():
        return result
    recorder = _recorder.get()
    if recorder is not None and result.requires_grad:
        recorder.note(result, function, inputs, costly=costly)
    return result


def redrawable(function: Callable[[], Tensor]) -> Tensor:
    """What `function` draws from PyTorch's generator of the CPU; drawn again it is the same."""
    recorder = _recorder.get()
    if recorder is None:
        return function()
    state = torch.get_rng_state()

    def again() -> Tensor:
        now = torch.get_rng_state()
        torch.set_rng_state(state)
        try:
            return function()
        finally:
            torch.set_rng_state(now)

    result = function()
    recorder.note(result, again, (), costly=False)
    return result


def cast_for_product(x: Tensor) -> Tensor:
    """The cast that autocast makes before a matrix product, as a step that can be made again."""
    if torch.compiler.is_compiling() or _recorder.get() is None:
        return x
    device = x.device.type
    if not torch.is_autocast_enabled(device) or not x.is_floating_point():
        return x
    dtype = torch.get_autocast_dtype(device)
    return x if x.dtype == dtype else recomputable(lambda x: x.to(dtype), x)
