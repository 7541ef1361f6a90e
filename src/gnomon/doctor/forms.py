"""Forms in which a module may come that was written as another: compiled, scripted, quantised.

What can be seen through is seen through; of the rest it is known what cannot be judged, and why.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.sparse.quantized")
_DYNAMIC = "torch.ao.nn.quantized.dynamic"


def as_written(module: nn.Module | None) -> nn.Module | None:
    """The module inside what `torch.compile` returns; any other as it is."""
    inner = getattr(module, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else module


def form_of(module: nn.Module | None) -> str:
    """What a person should know of the form it came in, one sentence; "" for a plain module."""
    if module is None:
        return ""
    if as_written(module) is not module:
        return "torch.compile: the module inside was examined, run as it is written"
    parts = list(module.modules())
    if any(as_written(part) is not part or _is_compiled(part) for part in parts):
        return "torch.compile: its compiled parts were run as they are written"
    if any(isinstance(part, torch.jit.ScriptModule) for part in parts):
        return (
            "TorchScript: judged by what comes out, since nothing inside can be seen; the module "
            "that it was made of tells more"
        )
    if names := quantised(module):
        return (
            f"{len(names)} layers hold int8 weights: what rounding hides was not judged; the model "
            "before it was quantised tells more"
        )
    return ""


def quantised(module: nn.Module, *, dynamically: bool = False) -> list[str]:
    """Names of layers whose weights are int8, and so take no gradient.

    Args:
        dynamically: only those that round what they read by the largest value of the whole batch.
    """
    where: tuple[str, ...] = (_DYNAMIC,) if dynamically else _QUANTISED
    return [
        name
        for name, part in module.named_modules()
        if type(part).__module__.startswith(where) and "PackedParams" not in type(part).__name__
    ]


@contextmanager
def uncompiled() -> Iterator[None]:
    """What was compiled runs as it is written: hooks and modes see it, and nothing is compiled.

    Compiling anew for every input, mode and hook of an examination would take minutes.
    """
    if "torch._dynamo" not in sys.modules:  # nothing can have been compiled
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def _is_compiled(module: nn.Module) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None


class SelfAttention(nn.Module):
    """A bare `nn.MultiheadAttention` as a model of one text."""

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """Every position attends to all; `x` is laid out as the module has it."""
        output: Tensor = self.attention(x, x, x, key_padding_mask, need_weights=False)[0]
        return output
