"""Where the heads of an attention call come from and go to: the projections around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnomon.probe import AttentionCall, Record
from gnomon.probe.record import ModuleCall, ProjectionCall

_SAME = 1e-3  # relative, of sums of squares
_Reader = ModuleCall | ProjectionCall
_Arrange = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Merged:
    """The projection (or another module) that reads the heads' outputs side by side.

    Attributes:
        given: what it reads.
        in_place: each row of `given` holds what the heads gave at that position.
        arrange: the heads' outputs `[B, H, T, K]` → `given`; None: the heads do not stand there
            one after another.
    """

    reader: _Reader
    given: Tensor
    in_place: bool
    arrange: _Arrange | None


def merged(record: Record, attention: AttentionCall) -> Merged | None:
    """Find it by its input, which holds the same numbers as the heads' outputs; None: not seen.

    Of modules within one another that read the same, it is the innermost.
    """
    output = attention.output
    if output is None or output.size(2) < 2:
        return None
    output = output.float()
    total, largest = float(output.square().sum()), float(output.abs().max())
    found: Merged | None = None
    for reader, tensor in read_after(record, attention):
        if tensor.numel() != output.numel():
            continue
        given = tensor.float()
        if abs(float(given.square().sum()) - total) > _SAME * total:
            continue
        if abs(float(given.abs().max()) - largest) > _SAME * largest:
            continue
        found = _fitting(output, reader, tensor, largest) or found
    return found


def _fitting(output: Tensor, reader: _Reader, tensor: Tensor, largest: float) -> Merged | None:
    given = tensor.float()
    if given.dim() == 4:
        if isinstance(reader, ProjectionCall):  # einsum("bhtk,hkd->btd")
            for arrange in _APART:
                if _close(arrange(output), given, largest):
                    return Merged(reader, tensor, True, arrange)
        return None
    rows = _side_by_side(output)  # [B, T, H·K]
    if given.size(-1) != rows.size(-1):
        return None
    for arrange in (_side_by_side, _time_first):
        expected = arrange(output).reshape(given.shape)
        if _same_rows(given, expected):
            in_order = _close(expected, given, largest)
            return Merged(reader, tensor, True, arrange if in_order else None)
    positions = given.shape[:2] in (rows.shape[:2], rows.transpose(0, 1).shape[:2])
    if positions and _same_values(given, rows):
        return Merged(reader, tensor, False, None)
    return None


def _side_by_side(heads: Tensor) -> Tensor:
    """`[B, H, T, K]` → `[B, T, H·K]`."""
    return heads.transpose(1, 2).flatten(2)


def _time_first(heads: Tensor) -> Tensor:
    """`[B, H, T, K]` → `[T, B, H·K]`."""
    return _side_by_side(heads).transpose(0, 1)


_APART: tuple[_Arrange, ...] = (
    lambda heads: heads,
    lambda heads: heads.transpose(1, 2),
    lambda heads: heads.permute(2, 0, 1, 3),
)


def _close(expected: Tensor, given: Tensor, largest: float) -> bool:
    return expected.shape == given.shape and bool(
        torch.allclose(given, expected, rtol=1e-3, atol=1e-4 * largest)
    )


def read_after(record: Record, attention: AttentionCall) -> Iterator[tuple[_Reader, Tensor]]:
    """What modules and bare projections in the owner of the attention and beside it read."""
    parent = attention.module.rpartition(".")[0]
    while parent and parent not in record.modules:  # a list of modules is not called
        parent = parent.rpartition(".")[0]

    def near(name: str) -> bool:
        return not parent or name.startswith(f"{parent}.") or name == parent

    readers: list[_Reader] = [
        call
        for name, calls in record.modules.items()
        if near(name) and name != attention.module
        for call in calls
    ]
    readers += [call for call in record.projections if near(call.module)]
    for reader in sorted(readers, key=lambda call: call.order):
        if isinstance(reader, ProjectionCall):
            yield reader, reader.given
        else:
            yield from ((reader, tensor) for tensor in reader.given)


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
    found, output = merged(record, attention), attention.output
    if found is None or found.arrange is None or output is None:
        return None
    arrange, shape, dtype = found.arrange, found.given.shape, found.given.dtype
    project: Callable[[Tensor], Tensor]
    if isinstance(found.reader, ProjectionCall):
        project = found.reader.again
    else:
        project = module = root.get_submodule(found.reader.module)
        weight = next((p for p in module.parameters() if p.dim() == 2), None)
        if list(module.children()) or weight is None:
            return None
        dtype = weight.dtype

    def given(heads: Tensor) -> Tensor:
        return arrange(heads).reshape(shape).to(dtype)

    try:
        nothing = project(given(torch.zeros_like(output)))
        parts = []
        for head in range(output.size(1)):
            only = torch.zeros_like(output)
            only[:, head] = output[:, head]
            parts.append((project(given(only)) - nothing).float().square().mean().sqrt())
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
    for output in _projected(record, attention.module):
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


def _projected(record: Record, owner: str) -> Iterator[Tensor]:
    """What modules and bare projections in the owner of an attention call gave."""
    for name, calls in record.modules.items():
        if not owner or name.startswith(f"{owner}."):
            yield from (tensor for call in calls for tensor in call.tensors)
    for each in record.projections:
        if not owner or each.module == owner or each.module.startswith(f"{owner}."):
            yield each.output
