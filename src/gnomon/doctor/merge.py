"""Where the heads of an attention call come from and go to: the projections around it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnomon.probe import AttentionCall, Record
from gnomon.probe.record import ModuleCall

_SAME = 1e-3  # relative, of sums of squares


@dataclass(frozen=True)
class Merged:
    """The module that reads the heads' outputs side by side.

    Attributes:
        given: what it reads, `[B·T, H·K]`.
        expected: the heads' outputs at the same rows, `[B·T, H·K]`, in the same order of rows.
        in_place: each row of `given` holds what the heads gave at that position.
        in_order: and the heads stand there one after another.
    """

    module: str
    given: Tensor
    expected: Tensor
    in_place: bool
    in_order: bool


def merged(record: Record, attention: AttentionCall) -> Merged | None:
    """Find it by its input, which holds the same numbers as the heads' outputs; None: not seen.

    Of modules within one another that read the same, it is the innermost.
    """
    output = attention.output
    if output is None or output.size(2) < 2:
        return None
    output = output.float()
    rows = output.transpose(1, 2).flatten(2)  # [B, T, H·K]
    total, largest = float(output.square().sum()), float(output.abs().max())
    found: Merged | None = None
    for call in _after(record, attention):
        for tensor in call.given:
            if tensor.numel() != output.numel() or tensor.size(-1) != rows.size(-1):
                continue
            given = tensor.float().reshape(-1, rows.size(-1))
            if abs(float(given.square().sum()) - total) > _SAME * total:
                continue
            if abs(float(given.abs().max()) - largest) > _SAME * largest:
                continue
            orders = [rows, rows.transpose(0, 1)]
            for order in orders:
                expected = order.reshape(given.shape)
                if _same_rows(given, expected):
                    in_order = bool(torch.allclose(given, expected, rtol=1e-3, atol=1e-4 * largest))
                    found = Merged(call.module, given, expected, True, in_order)
                    break
            else:
                positions = tensor.shape[:2] in (rows.shape[:2], rows.transpose(0, 1).shape[:2])
                if found is None and positions and _same_values(given, rows):
                    found = Merged(call.module, given, rows.reshape(given.shape), False, False)
    return found


def _after(record: Record, attention: AttentionCall) -> list[ModuleCall]:
    """Module calls within the owner of the attention and beside it, in order."""
    parent = attention.module.rpartition(".")[0]
    found = [
        call
        for name, calls in record.modules.items()
        if not parent or name.startswith(f"{parent}.") or name == parent
        for call in calls
        if name != attention.module
    ]
    return sorted(found, key=lambda call: call.order)


def _same_rows(a: Tensor, b: Tensor) -> bool:
    off = (a.sort(-1).values - b.sort(-1).values).abs().max()
    return float(off) <= _SAME * float(b.abs().max())


def _same_values(a: Tensor, b: Tensor) -> bool:
    if a.numel() != b.numel():
        return False
    off = (a.flatten().sort().values - b.flatten().sort().values).abs().max()
    return float(off) <= _SAME * float(b.abs().max())


@torch.no_grad()
def contributions(root: nn.Module, record: Record, attention: AttentionCall) -> Tensor | None:
    """`[H]`: root mean square of what each head adds after the output projection; None: unseen."""
    found = merged(record, attention)
    output = attention.output
    if output is None:
        return None
    heads, width = output.size(1), output.size(-1)
    owner = root.get_submodule(attention.module)
    if found is None and isinstance(owner, nn.MultiheadAttention):
        given = output.transpose(1, 2).reshape(-1, heads * width)
        project: nn.Module = owner.out_proj
    elif found is not None and found.in_order:
        given, project = found.given, root.get_submodule(found.module)
        if list(project.children()) or not any(p.dim() == 2 for p in project.parameters()):
            return None
    else:
        return None
    weight = next(p for p in project.parameters() if p.dim() == 2)
    given = given.to(weight)
    try:
        nothing = project(torch.zeros_like(given))
        parts = []
        for head in range(heads):
            only = torch.zeros_like(given)
            columns = slice(head * width, (head + 1) * width)
            only[:, columns] = given[:, columns]
            parts.append((project(only) - nothing).float().square().mean().sqrt())
    except Exception:  # no plain projection
        return None
    return torch.stack(parts)


def split_rows(record: Record, attention: AttentionCall) -> dict[str, bool]:
    """Of queries, keys and values: whether each position has what was projected at that position.

    By sums of squares, which rotation leaves as they are: where a projection's output has the same
    sum in all but not at each position, the heads were cut across positions. What matches no
    projection's output (normalised queries, a functional projection) is left out.
    """
    found: dict[str, bool] = {}
    for name, tensor in (
        ("queries", attention.query), ("keys", attention.key), ("values", attention.value),
    ):  # fmt: skip
        if tensor is None:
            continue
        if name != "queries" and attention.num_key_heads and attention.num_heads:
            tensor = tensor[:, :: attention.num_heads // attention.num_key_heads]
        verdict = _cut(record, attention, tensor.float())
        if verdict is not None:
            found[name] = verdict
    return found


def _cut(record: Record, attention: AttentionCall, tensor: Tensor) -> bool | None:
    energy = tensor.square().sum((1, 3))  # [B, T]
    if energy.size(1) < 2 or not float(energy.std()) > 1e-3 * float(energy.mean()):
        return None
    width = tensor.size(1) * tensor.size(3)
    crossed: bool | None = None
    owner = attention.module
    for name, calls in record.modules.items():
        if owner and not name.startswith(f"{owner}."):
            continue
        for call in calls:
            for output in call.tensors:
                if output.dim() != 3 or output.size(-1) < width or output.size(-1) % width:
                    continue
                for place in range(output.size(-1) // width):
                    part = output[..., place * width : (place + 1) * width].float()
                    at = part.square().sum(-1)
                    total = float(energy.sum())
                    if abs(float(at.sum()) - total) > _SAME * total:
                        continue
                    for order in (at, at.T):
                        if order.shape == energy.shape and bool(
                            ((order - energy).abs() <= 1e-2 * energy.mean()).all()
                        ):
                            return True
                    if at.shape not in (energy.shape, energy.T.shape):
                        continue  # attention in blocks: other rows on purpose
                    exact = abs(float(at.sum()) - total) <= 1e-6 * total
                    if exact or _same_values(part, tensor):
                        crossed = False
    return crossed
