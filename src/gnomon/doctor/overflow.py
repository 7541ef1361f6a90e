"""Sums that leave the range of their dtype although what goes into them is finite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

_SUMS = ("add", "sub", "rsub", "mul")


@contextmanager
def overflows(module: nn.Module) -> Iterator[list[str]]:
    """Gathers the owners (dotted names) of sums and products that overflow while the block runs."""
    found: list[str] = []
    stack: list[str] = [""]
    handles = []

    def enter(name: str) -> Any:
        return lambda *_: stack.append(name)

    def leave(*_: Any) -> None:
        stack.pop()

    for name, each in module.named_modules():
        if name:
            handles.append(each.register_forward_pre_hook(enter(name)))
            handles.append(each.register_forward_hook(leave, always_call=True))
    try:
        with _Watch(found, stack):
            yield found
    finally:
        for handle in handles:
            handle.remove()


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, found: list[str], stack: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found, self.stack = found, stack

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        watched = func.overloadpacket.__name__.rstrip("_") in _SUMS
        # Before the call, as it may write into its input.
        finite = watched and all(_is_finite(each) for each in args)
        result = func(*args, **(kwargs or {}))
        if finite and isinstance(result, Tensor) and not _is_finite(result):
            self.found.append(self.stack[-1])
        return result


def _is_finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    return not isinstance(value, float) or abs(value) < float("inf")
