"""Where views, permutations and slices have moved each score: told by moving an index along.

An index holds, for each place of a tensor, the flat place in an earlier tensor that it came from;
-1 where it came from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.probe.steps import State, Step


def has_layout(steps: Sequence[Step]) -> bool:
    """Whether any step moves values."""
    return any(step.kind == "layout" for step in steps)


def moved(shape: Sequence[int], steps: Sequence[Step], device: torch.device) -> Tensor:
    """The index after the layout steps: places of a tensor of `shape`."""
    state = State(None, None, torch.arange(math.prod(shape), device=device).view(tuple(shape)))
    for step in steps:
        if step.kind == "layout":
            step.replay(state)
    assert state.index is not None
    return state.index


def inverse(index: Tensor, shape: Sequence[int]) -> Tensor:
    """For each place of the earlier tensor of `shape` where it went; -1: it was left out."""
    back = torch.full((math.prod(shape),), -1, device=index.device)
    places = index.flatten()
    known = places >= 0
    back[places[known]] = torch.arange(len(places), device=index.device)[known]
    return back.view(tuple(shape))


def axis_roles(index: Tensor, shape: tuple[int, ...], rows: int, columns: int) -> tuple[int, int]:
    """Axes of `index` that run over axis `rows` and axis `columns` of the earlier `shape`.

    Where heads and queries shared an axis (grouped queries), several axes run over its rows; the
    one with the smallest steps is the queries'.
    """
    last = index.dim() - 1
    of_columns = _finest(index, columns, shape)
    if of_columns is None:
        of_columns = last
    beside = of_columns - 1
    if beside >= 0 and index.shape[beside] == 1:
        return beside, of_columns  # one query: nothing runs over it
    of_rows = _finest(index, rows, shape)
    if of_rows is None or of_rows == of_columns:
        of_rows = next(axis for axis in range(last, -1, -1) if axis != of_columns)
    return of_rows, of_columns


def _finest(index: Tensor, wanted: int, shape: tuple[int, ...]) -> int | None:
    """The axis of `index` whose step changes coordinate `wanted` least; None if none does."""
    best: tuple[int, int] | None = None
    for axis in range(index.dim()):
        step = first_step(index, axis, shape)
        if step is None or step[wanted] == 0:
            continue
        if best is None or abs(step[wanted]) < best[0]:
            best = abs(step[wanted]), axis
    return None if best is None else best[1]


def first_step(index: Tensor, axis: int, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """By how much each coordinate of the earlier tensor changes with the first step along `axis`.

    None where there is no step, or it leads elsewhere.
    """
    if index.shape[axis] < 2:
        return None
    place = [0] * index.dim()
    first = int(index[tuple(place)])
    place[axis] = 1
    second = int(index[tuple(place)])
    if first < 0 or second < 0:
        return None
    both = torch.unravel_index(torch.tensor([first, second]), shape)
    return tuple(int(c[1]) - int(c[0]) for c in both)


def gather_rows(
    operand: Tensor, places: Tensor, shape: tuple[int, ...], axes: Sequence[int]
) -> Tensor:
    """Rows of a product's operand for given places of the product.

    Args:
        operand: `[*axes, C]`.
        places: flat places in the product's output of `shape`, `[*b, X]`.
        axes: axes of the output that the operand's leading axes are, in its order.

    Returns:
        `[*b, X, C]`; a view where the rows stand in that order already.
    """
    coordinates = torch.unravel_index(places, shape)
    chosen = torch.zeros_like(places)
    for axis, size in zip(axes, operand.shape, strict=False):
        chosen = chosen * size + coordinates[axis]
    rows = operand.reshape(-1, operand.shape[-1])
    flat = chosen.flatten()
    in_order = len(flat) == len(rows) and torch.equal(
        flat, torch.arange(len(rows), device=flat.device)
    )
    return (rows if in_order else rows[flat]).view(*places.shape, rows.shape[-1])
