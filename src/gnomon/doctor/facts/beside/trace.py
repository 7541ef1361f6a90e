"""Where two runs of one module part ways."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gnomon.doctor.run import Run, difference
from gnomon.probe import ModuleCall

# They treat each position alone, so that what went wrong went wrong in the code that calls them.
_POSITION_WISE = ("Linear", "Conv1D", "LayerNorm", "RMSNorm", "Dropout", "Embedding", "Identity",
                  "ReLU", "GELU", "SiLU")  # fmt: skip


def parted(
    module: nn.Module, base: Run, other: Run, keep: Tensor, tolerance: float
) -> tuple[str, float] | None:
    """The first module whose output moved at positions where nothing should.

    Args:
        base, other: observed with every submodule's outputs.
        keep: bool `[B, T]` over the text that is read; the other run may be longer than that.

    Returns:
        its dotted name and by how much, in units of the spread; None: none that was seen did.
    """
    moved: dict[str, tuple[int, float]] = {}
    for name, calls in base.record.modules.items():
        others = other.record.modules.get(name, [])
        if len(calls) != len(others):
            continue
        for one, two in zip(calls, others, strict=True):
            by = _moved(one, two, keep)
            if by is not None and by > tolerance:
                moved.setdefault(name, (one.order, by))
                break
    first = first_inner({name: order for name, (order, _) in moved.items()})
    return None if first is None else (at_fault(module, first), moved[first][1])


def first_inner(moved: Mapping[str, int]) -> str | None:
    """Of the modules that moved, by their order, the first that holds none of the others."""
    inner = [
        name for name in moved if not any(other.startswith(f"{name}.") for other in moved if name)
    ]
    inner = [name for name in inner if name] or list(moved)
    return min(inner, key=lambda each: moved[each]) if inner else None


def at_fault(module: nn.Module, name: str) -> str:
    """The module itself, or what calls it where it treats each position alone."""
    by_position = type(module.get_submodule(name)).__name__.endswith(_POSITION_WISE)
    return name.rpartition(".")[0] if by_position else name


def _moved(one: ModuleCall, two: ModuleCall, keep: Tensor) -> float | None:
    worst = None
    for a, b in zip(one.tensors, two.tensors, strict=False):
        before, after = _rows_first(a, keep), _rows_first(b, keep)
        if before is None or after is None or before.shape[2:] != after.shape[2:]:
            continue
        before = before[:, : keep.size(1)]
        worst = max(worst or 0.0, difference(before, after[:, : keep.size(1)], keep))
    return worst


def _rows_first(tensor: Tensor, keep: Tensor) -> Tensor | None:
    """`[B, T, …]` with at least the text's positions; None: it does not run along it."""
    rows, length = keep.shape
    if not tensor.is_floating_point() or tensor.dim() < 3:
        return None
    if tensor.size(0) == rows and tensor.size(1) >= length:
        return tensor
    if tensor.size(1) == rows and tensor.size(0) >= length:
        return tensor.transpose(0, 1)
    return None


def first_not_finite(run: Run) -> str | None:
    """The first module that gave something not finite; None: none did."""
    found = [
        (one.order, name)
        for name, calls in run.record.modules.items()
        for one in calls
        if any(not bool(torch.isfinite(each).all()) for each in one.tensors)
    ]
    # Of a module and what holds it, the inner one began later.
    inner = [
        (order, name)
        for order, name in found
        if not any(other.startswith(f"{name}.") or (not name and other) for _, other in found)
    ]
    return min(inner)[1] if inner else None
