"""Batched products of two tensors, whatever they are written with, in one canonical form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Product:
    """`out[*b, M, N] = left[*b, M, C] · right[*b, N, C]`.

    Each `*_order` permutes the axes of the tensor as it is to the order above. Where an operand
    lacks a batch axis the order holds None there (it is broadcast).
    """

    left: Tensor
    right: Tensor
    left_order: tuple[int | None, ...]
    right_order: tuple[int | None, ...]
    out_order: tuple[int, ...]
    # baddbmm: out = alpha · left · right + beta · added
    alpha: float = 1.0
    added: Tensor | None = None
    beta: float = 1.0

    def flipped(self) -> Product:
        """The same product read with its operands exchanged."""
        *batch, rows, columns = self.out_order
        return Product(
            self.right,
            self.left,
            self.right_order,
            self.left_order,
            (*batch, columns, rows),
            alpha=self.alpha,
            added=self.added,
            beta=self.beta,
        )


def arrange(tensor: Tensor, order: tuple[int | None, ...]) -> Tensor:
    """Permute the axes; None makes an axis of size 1."""
    tensor = tensor.permute([axis for axis in order if axis is not None])
    for place, axis in enumerate(order):
        if axis is None:
            tensor = tensor.unsqueeze(place)
    return tensor


def product(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Product | None:
    """Read a call of matmul, bmm, baddbmm or einsum; None if it is no product of two batches."""
    if name in ("matmul", "__matmul__", "bmm", "mm"):
        left, right = _two(args, kwargs)
        return _matmul(left, right)
    if name in ("__rmatmul__",):
        left, right = _two(args, kwargs)
        return _matmul(right, left)
    if name == "baddbmm":
        operands = [*args, *(kwargs[key] for key in ("batch1", "batch2") if key in kwargs)]
        if len(operands) < 3:
            return None
        found = _matmul(operands[-2], operands[-1])
        if found is None:
            return None
        return Product(
            found.left,
            found.right,
            found.left_order,
            found.right_order,
            found.out_order,
            alpha=float(kwargs.get("alpha", 1)),
            added=operands[0] if float(kwargs.get("beta", 1)) != 0 else None,
            beta=float(kwargs.get("beta", 1)),
        )
    if name == "einsum":
        return _einsum(args)
    return None


def _two(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    both = [*args, *(kwargs[key] for key in ("other", "mat2") if key in kwargs)]
    return (both[0], both[1]) if len(both) >= 2 else (None, None)


def _matmul(left: Any, right: Any) -> Product | None:
    if not (isinstance(left, Tensor) and isinstance(right, Tensor)):
        return None
    if left.dim() < 2 or right.dim() < 2:
        return None
    num_axes = max(left.dim(), right.dim())
    batch = num_axes - 2

    def order(tensor: Tensor, swap: bool) -> tuple[int | None, ...]:
        missing = num_axes - tensor.dim()
        axes: list[int | None] = [None] * missing
        rows, columns = tensor.dim() - 2, tensor.dim() - 1
        axes += range(rows)
        axes += [columns, rows] if swap else [rows, columns]
        return tuple(axes)

    out = (*range(batch), batch, batch + 1)
    return Product(left, right, order(left, False), order(right, True), out)


def _einsum(args: tuple[Any, ...]) -> Product | None:
    equation, *operands = args
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    if not isinstance(equation, str) or len(operands) != 2:
        return None
    equation = equation.replace(" ", "")
    if "->" not in equation:
        return None
    inputs, output = equation.split("->")
    if inputs.count(",") != 1:
        return None
    first, second = inputs.split(",")
    if "..." in equation:
        expanded = _expand_dots(first, second, output, operands)
        if expanded is None:
            return None
        first, second, output = expanded
    if any(len(set(letters)) != len(letters) for letters in (first, second, output)):
        return None
    contracted = [c for c in first if c in second and c not in output]
    rows = [c for c in first if c not in second and c in output]
    columns = [c for c in second if c not in first and c in output]
    batch = [c for c in output if c in first and c in second]
    if len(contracted) != 1:
        return None
    # A letter of one operand alone is a row, or a head that the other operand shares (grouped
    # queries): the row is the one that stands nearest to the end of the operand.
    shared_left, shared_right = rows[:-1], columns[:-1]
    if not rows or not columns:
        return None
    row, column = rows[-1], columns[-1]
    batch = [c for c in output if c in batch or c in shared_left or c in shared_right]

    def order(letters: str, last: tuple[str, str]) -> tuple[int | None, ...]:
        wanted = (*batch, *last)
        return tuple(letters.index(c) if c in letters else None for c in wanted)

    out = tuple(output.index(c) for c in (*batch, row, column))
    c = contracted[0]
    left, right = order(first, (row, c)), order(second, (column, c))
    if len([a for a in left if a is not None]) != len(first):
        return None
    if len([a for a in right if a is not None]) != len(second):
        return None
    return Product(operands[0], operands[1], left, right, out)


def _expand_dots(
    first: str, second: str, output: str, operands: list[Any]
) -> tuple[str, str, str] | None:
    """Spell `...` as capital letters that the equation does not use."""
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in first + second + output]
    hidden = []
    for letters, operand in zip((first, second), operands, strict=True):
        named = len(letters.replace("...", ""))
        hidden.append(operand.dim() - named if "..." in letters else 0)
    most = max(hidden)
    if most > len(spare):
        return None
    dots = "".join(spare[:most])

    def spelt(letters: str, count: int) -> str:
        return letters.replace("...", dots[most - count :])

    return spelt(first, hidden[0]), spelt(second, hidden[1]), spelt(output, most)
