"""Heads that are computed one by one, a module or a turn of a loop each, as one attention call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.facts.attention.merge import read_after
from gnomon.doctor.facts.attention.sides import common
from gnomon.doctor.remembering import remembered
from gnomon.probe import AttentionCall, Record

_Masks = tuple[Tensor | None, Tensor | None, tuple[float, ...]]


@remembered
def joined(case: Case) -> tuple[AttentionCall, ...]:
    """The attention calls on `case.small`, those of one head each put together to a layer's.

    Calls belong together where one module or projection reads what they gave side by side.
    """
    return tuple(together(case.record))


def together(record: Record) -> Iterator[AttentionCall]:
    """The same of any record made with outputs kept."""
    calls, at = record.attention, 0
    while at < len(calls):
        count = _read_together(record, calls[at:])
        yield calls[at] if count == 1 else _as_one(calls[at : at + count])
        at += count


def _read_together(record: Record, calls: Sequence[AttentionCall]) -> int:
    """How many of these calls, from the first on, are heads of one layer."""
    first = calls[0].output
    if first is None or first.size(1) != 1 or len(calls) < 2 or calls[1].num_heads != 1:
        return 1
    width = first.size(-1)
    for _, given in read_after(record, calls[0]):
        count = given.size(-1) // width if given.dim() == 3 else 1
        if not 2 <= count <= len(calls) or given.size(-1) % width:
            continue
        outputs = [call.output for call in calls[:count]]
        if any(each is None or each.shape != first.shape for each in outputs):
            continue
        side_by_side = torch.cat([each[:, 0] for each in outputs if each is not None], dim=-1)
        for order in (given, given.transpose(0, 1)):
            if order.shape == side_by_side.shape and torch.equal(order, side_by_side):
                return count
    return 1


def _as_one(calls: Sequence[AttentionCall]) -> AttentionCall:
    names = [call.module.split(".") for call in calls]
    return replace(
        calls[0],
        module=".".join(common(names)),
        weights_tensor=None,
        evidence=_SideBySide(tuple(calls)),
    )


@dataclass(frozen=True)
class _SideBySide:
    """What calls of one head each show, as heads of one; see `gnomon.probe.attention.Evidence`."""

    calls: tuple[AttentionCall, ...]

    def _of(self, part: Callable[[AttentionCall], Tensor | None]) -> Tensor | None:
        found = [part(call) for call in self.calls]
        tensors = [each for each in found if each is not None]
        if len(tensors) < len(found) or len({each.shape for each in tensors}) > 1:
            return None
        return torch.cat(tensors, dim=1)

    def operands(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        return self._of(lambda c: c.query), self._of(lambda c: c.key), self._of(lambda c: c.value)

    def scale(self) -> float | None:
        scales = {call.scale for call in self.calls}
        return scales.pop() if len(scales) == 1 else None

    def mask(self) -> _Masks:
        constants = tuple(dict.fromkeys(c for call in self.calls for c in call.mask_constants))
        keep = bias = None
        if any(call.keep is not None for call in self.calls):
            keep = self._of(lambda c: _all_kept(c) if c.keep is None else _wide(c, c.keep))
        if any(call.bias is not None for call in self.calls):
            bias = self._of(
                lambda c: _all_kept(c).float().mul(0) if c.bias is None else _wide(c, c.bias)
            )
        return keep, bias, constants

    def scores(self) -> Tensor | None:
        return self._of(lambda call: call.scores)

    def weights(self) -> Tensor | None:
        return self._of(lambda call: call.weights)

    def applied_weights(self) -> Tensor | None:
        return self._of(lambda call: call.applied_weights)

    def output(self) -> Tensor | None:
        return self._of(lambda call: call.output)

    def key_repeats(self) -> int:
        return 1

    def softmax_dim(self) -> int | None:
        dims = {call.softmax_dim for call in self.calls}
        return dims.pop() if len(dims) == 1 else None


def _wide(call: AttentionCall, tensor: Tensor) -> Tensor:
    weights = call.weights
    return tensor if weights is None else tensor.expand(weights.shape)


def _all_kept(call: AttentionCall) -> Tensor:
    weights = call.weights
    assert weights is not None
    return torch.ones_like(weights, dtype=torch.bool)
