"""Finds where the first NaN or infinity of a step came from, by running the step again."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from gnomon.training.objective import LossSums


def find_non_finite(model: nn.Module, run: Callable[[], LossSums]) -> str | None:
    """Say which part of `model` first gives a NaN or infinity; None when nothing does.

    Args:
        model: the network as it was before the step, without gradients.
        run: forward and backward pass of one micro-batch, with the generators as they were.
    """
    name = first_non_finite_weight(model)
    if name is not None:
        return f"the weights themselves: {name} holds {_count(model.get_parameter(name))}"
    with _watched(model) as sightings:
        sums = run()
    if sightings:
        return sightings[0]
    if not _is_finite(sums.loss):
        return "the loss: every module's output is finite, the cross-entropy is not"
    return None


def first_non_finite_weight(model: nn.Module) -> str | None:
    """The name of the first parameter that holds a NaN or infinity."""
    return next((name for name, p in model.named_parameters() if not _is_finite(p)), None)


@contextmanager
def _watched(model: nn.Module) -> Iterator[list[str]]:
    """While the block runs, note non-finite outputs and gradients in the order they appear.

    An inner module returns before the module around it, so the first note names the innermost
    one. Gradients are watched by hooks on tensors: module backward hooks wrap inputs in copies
    and forbid in-place operations, which would change the step under examination.
    """
    sightings: list[str] = []
    handles: list[RemovableHandle] = []

    def watch_gradient(tensor: Tensor, what: str) -> None:
        def look(gradient: Tensor) -> None:
            if not _is_finite(gradient):
                sightings.append(f"the gradient of {what} ({_count(gradient)})")

        handles.append(tensor.register_hook(look))  # type: ignore[no-untyped-call]

    def forward_hook(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(module: nn.Module, inputs: Any, outputs: Any) -> None:
            for tensor in _floating_tensors(outputs):
                if not _is_finite(tensor):
                    kind = type(module).__name__
                    sightings.append(f"the output of {name} ({kind}; {_count(tensor)})")
                if tensor.requires_grad:
                    watch_gradient(tensor, f"the output of {name}")

        return look

    try:
        for name, module in model.named_modules():
            handles.append(module.register_forward_hook(forward_hook(name or "the whole model")))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                watch_gradient(parameter, f"the weights {name}")
        yield sightings
    finally:
        for handle in handles:
            handle.remove()


def _floating_tensors(value: Any) -> Iterator[Tensor]:
    """All floating tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _floating_tensors(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _floating_tensors(item)


def _is_finite(tensor: Tensor) -> bool:
    values = tensor.coalesce().values() if tensor.is_sparse else tensor
    return bool(torch.isfinite(values.detach()).all())


def _count(tensor: Tensor) -> str:
    values = (tensor.coalesce().values() if tensor.is_sparse else tensor).detach()
    num_nan, num_inf = int(values.isnan().sum()), int(values.isinf().sum())
    return f"{num_nan} NaN and {num_inf} infinite of {values.numel():,} values"


def is_disk_full(error: BaseException) -> bool:
    """Whether `error` says that no space (or quota) is left on the device."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    # safetensors reports the system's error by its text only.
    text = str(error)
    return isinstance(error, SafetensorError) and any(
        f"os error {code}" in text for code in (errno.ENOSPC, errno.EDQUOT)
    )
