"""Evidence of attention written by hand: a product, what becomes of it, softmax, the values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from gnomon.probe import masks
from gnomon.probe.kept import Kept
from gnomon.probe.products import arrange
from gnomon.probe.steps import State, Step


@dataclass(frozen=True, eq=False)
class Scores:
    """A product that may become scores, and the steps so far.

    `left` and `right` are as they went into the product; `out_order` permutes its output
    `out_shape` to `[*b, M, N]`, where M are the rows of `left`, N those of `right`.
    """

    left: Kept
    right: Kept
    left_order: tuple[int | None, ...]
    right_order: tuple[int | None, ...]
    out_order: tuple[int, ...]
    out_shape: tuple[int, ...]
    dtype: torch.dtype
    # scalings of the operands just before the product
    factors: tuple[float, float]
    # [B, H] of a merged first axis
    heads: tuple[int, int] | None
    # an operand is a parameter of the model, or there is no batch: wait for the values before
    # calling this attention
    doubtful: bool
    # origins of both operands, for `is_cross`
    origins: tuple[frozenset[int], frozenset[int]]
    lengths_differ: bool
    repeats: int
    # of the product and all scalings since; None: not one number
    scale: float | None
    steps: tuple[Step, ...] = ()
    fills: tuple[float, ...] = ()
    mask_dtype: torch.dtype | None = None
    dropped: float = 0.0


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights on their way from softmax to the values."""

    evidence: SoftmaxEvidence
    steps: tuple[Step, ...] = ()
    dropout: float = 0.0


@dataclass(eq=False)
class SoftmaxEvidence:
    """What a softmax and the products around it show."""

    given: Kept
    result: Kept
    # axis of `given`, counted from the start
    axis: int
    scores_trail: Scores | None
    heads: tuple[int, int] | None = None
    training: bool = False
    # the product with the values, once seen
    applied: Kept | None = None
    applied_order: tuple[int | None, ...] = ()
    value: Kept | None = None
    value_order: tuple[int | None, ...] = ()
    context: Kept | None = None
    context_order: tuple[int, ...] = ()
    steps_after: tuple[Step, ...] = ()
    # whatever the record made of this softmax
    call: object = field(default=None, repr=False)

    # --- layout ---------------------------------------------------------------------------

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """Permutes the axes of softmax's input to `[*b, T, S]`."""
        order = self._order_of_product
        contracted = self._contracted
        if contracted is not None and contracted == order[-2]:
            # the scores stand as keys · queries: the values are summed over the product's rows
            order = (*order[:-2], order[-1], order[-2])
        return order

    @cached_property
    def _swapped(self) -> bool:
        """Whether the product's left operand holds the keys."""
        return self._order[-1] != self._order_of_product[-1]

    @cached_property
    def _order_of_product(self) -> tuple[int, ...]:
        """Permutes the axes of softmax's input to `[*b, M, N]` of the product."""
        dims = self.given.tensor.dim()
        trail = self.scores_trail
        if trail is None:
            known = [axis for axis in self.applied_order if axis is not None]
            return tuple(known) if len(known) == dims else tuple(range(dims))
        if not any(step.kind == "layout" for step in trail.steps):
            return trail.out_order
        rows, columns = self._axis_roles
        rest = [axis for axis in range(dims) if axis not in (rows, columns)]
        return (*rest, rows, columns)

    @cached_property
    def _index(self) -> Tensor | None:
        """Where each place of softmax's input stands in the product's output."""
        trail = self.scores_trail
        if trail is None or not any(step.kind == "layout" for step in trail.steps):
            return None
        state = State(None, None, _flat_index(trail.out_shape, self.given.tensor.device))
        for step in trail.steps:
            if step.kind == "layout":
                step.replay(state)
        return state.index

    @cached_property
    def _axis_roles(self) -> tuple[int, int]:
        """Axes of softmax's input that run over the product's rows and columns."""
        assert self.scores_trail is not None and self._index is not None
        return _roles(self._index, self.scores_trail.out_shape, self.scores_trail.out_order)

    @cached_property
    def _contracted(self) -> int | None:
        """The axis of softmax's input that the product with the values sums over."""
        if not self.applied_order:
            return None
        axis = self.applied_order[-1]
        assert axis is not None
        if not any(step.kind == "layout" for step in self.steps_after):
            return axis
        shape = tuple(self.given.tensor.shape)
        state = State(None, None, _flat_index(shape, self.given.tensor.device))
        for step in self.steps_after:
            if step.kind == "layout":
                step.replay(state)
        assert state.index is not None
        return _moved_axis(state.index, axis, shape)

    def _canonical(self, tensor: Tensor) -> Tensor:
        """What has the layout of softmax's input, as `[B, H, T, S]`."""
        tensor = self._four(tensor.permute(self._order))
        if self._foreign_columns is not None:
            tensor = tensor[..., ~self._foreign_columns]
        return tensor

    @cached_property
    def _foreign_columns(self) -> Tensor | None:
        """`[S]`, True for columns that were joined to the scores and are no keys."""
        if self._index is None:
            return None
        columns = self._index.permute(self._order).flatten(0, -2)[0]
        return columns < 0 if bool((columns < 0).any()) else None

    def _four(self, tensor: Tensor) -> Tensor:
        """`[*b, X, Y]` as `[B, H, X, Y]`."""
        if tensor.dim() == 2:
            return tensor[None, None]
        if tensor.dim() == 3:
            if self.heads is not None and math.prod(self.heads) == tensor.shape[0]:
                return tensor.reshape(*self.heads, *tensor.shape[1:])
            return tensor[:, None]
        return tensor.flatten(1, -3)

    # --- evidence --------------------------------------------------------------------------

    def operands(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """See `Evidence`."""
        value = None
        if self.value is not None:
            value = self._batched(arrange(self.value.tensor, self.value_order).transpose(-1, -2))
        trail = self.scores_trail
        if trail is None:
            return None, None, value
        rows = self._operand(trail.left, trail.left_order, trail.factors[0])
        columns = self._operand(trail.right, trail.right_order, trail.factors[1])
        return (columns, rows, value) if self._swapped else (rows, columns, value)

    def _operand(self, kept: Kept, order: tuple[int | None, ...], factor: float) -> Tensor:
        """A product's operand in the batch layout of softmax's input, before scaling."""
        trail = self.scores_trail
        assert trail is not None
        tensor = arrange(kept.tensor, order)
        batch = [trail.out_shape[axis] for axis in trail.out_order[:-2]]
        tensor = tensor.expand(*batch, *tensor.shape[-2:])
        if self._index is not None:
            # the first row and column of each head tell which batch of the product it was
            columns = self._foreign_columns
            first = 0 if columns is None else int((~columns).nonzero()[0])
            places = self._index.permute(self._order)[..., 0, first]
            coordinates = torch.unravel_index(places.flatten(), trail.out_shape)
            strides = [math.prod(batch[i + 1 :]) for i in range(len(batch))]
            chosen = torch.zeros_like(places.flatten())
            for axis, stride in zip(trail.out_order[:-2], strides, strict=True):
                chosen = chosen + coordinates[axis] * stride
            flat = tensor.reshape(-1, *tensor.shape[-2:])
            if not torch.equal(chosen, torch.arange(len(flat), device=chosen.device)):
                flat = flat[chosen]
            tensor = flat.view(*places.shape, *flat.shape[1:])
        tensor = self._four(tensor)
        return tensor if factor == 1 else tensor / factor

    def _batched(self, tensor: Tensor) -> Tensor:
        """`[*b, S, K]` of the values, broadcast over the heads of the weights."""
        weights = self.weights()
        tensor = self._four(tensor)
        return tensor.expand(*weights.shape[:2], *tensor.shape[-2:])

    def scale(self) -> float | None:
        """See `Evidence`."""
        return None if self.scores_trail is None else self.scores_trail.scale

    def mask(self) -> tuple[Tensor | None, Tensor | None, tuple[float, ...]]:
        """See `Evidence`."""
        given = self.given.tensor
        trail = self.scores_trail
        if trail is None:
            # nothing is known of what was added: hidden is what stands at a mask's constant
            keep, added = given > masks.CERTAINLY_HIDES, given
        elif any(step.kind == "mask" for step in trail.steps):
            zeros = torch.zeros(trail.out_shape, dtype=trail.dtype, device=given.device)
            state = State(zeros, torch.ones_like(zeros, dtype=torch.bool), None)
            for step in trail.steps:
                step.replay(state)
            assert state.added is not None and state.keep is not None
            added = state.added
            keep = state.keep & (added > masks.CERTAINLY_HIDES)
        else:
            return None, None, ()
        constants = masks.constants(added, keep)
        bias = None
        if trail is not None:
            bias = self._canonical(added.masked_fill(~keep, 0.0))
            bias = masks.squeeze_broadcast(bias) if bool((bias != 0).any()) else None
        keep = self._canonical(keep)
        return (None if bool(keep.all()) else masks.squeeze_broadcast(keep)), bias, constants

    def scores(self) -> Tensor:
        """See `Evidence`."""
        return self._canonical(self.given.tensor)

    def weights(self) -> Tensor:
        """See `Evidence`."""
        return self._canonical(self.result.tensor)

    def applied_weights(self) -> Tensor | None:
        """See `Evidence`."""
        if self.applied is None:
            return None
        return self._four(arrange(self.applied.tensor, self.applied_order))

    def output(self) -> Tensor | None:
        """See `Evidence`."""
        if self.context is None:
            return None
        return self._four(self.context.tensor.permute(self.context_order))

    def softmax_dim(self) -> int | None:
        """See `Evidence`."""
        place = self._order.index(self.axis) - len(self._order)
        if place >= -2:
            return place
        # of the axes before, the first is the batch, the others are heads
        return -4 if self._order.index(self.axis) == 0 else -3


def _flat_index(shape: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.arange(math.prod(shape), device=device).view(shape)


def _roles(index: Tensor, shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, int]:
    """Axes of `index` along which rows and columns of a product of that shape vary."""
    rows = _varying(index, order[-2], shape)
    columns = _varying(index, order[-1], shape)
    last = index.dim() - 1
    if columns is None:
        columns = last if rows != last else last - 1
    if rows is None:
        rows = columns - 1 if columns > 0 and index.shape[columns - 1] == 1 else None
    if rows is None:
        rows = next(a for a in range(last, -1, -1) if a != columns)
    return rows, columns


def _varying(index: Tensor, wanted: int, shape: tuple[int, ...]) -> int | None:
    """The axis of `index` along which coordinate `wanted` of `shape` varies; None if none does."""
    for axis in range(index.dim()):
        if index.shape[axis] < 2:
            continue
        place = [0] * index.dim()
        first = int(index[tuple(place)])
        place[axis] = 1
        second = int(index[tuple(place)])
        if first < 0 or second < 0:
            continue
        here = torch.unravel_index(torch.tensor([first, second]), shape)[wanted]
        if int(here[0]) != int(here[1]):
            return axis
    return None


def _moved_axis(index: Tensor, axis: int, shape: tuple[int, ...]) -> int | None:
    """The axis of `shape` that axis `axis` of the rearranged `index` runs over."""
    if index.shape[axis] < 2:
        return len(shape) - 1 if axis == index.dim() - 1 else None
    place = [0] * index.dim()
    first = int(index[tuple(place)])
    place[axis] = 1
    second = int(index[tuple(place)])
    here = torch.unravel_index(torch.tensor([first, second]), shape)
    varying = [a for a, c in enumerate(here) if int(c[0]) != int(c[1])]
    return varying[-1] if len(varying) == 1 else None
