"""Evidence of attention written by hand: a product, what becomes of it, softmax, the values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from gnomon.probe import layouts, masks
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

    # --- layout: how softmax's input stands to [*b, T, S] -----------------------------------

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """Permutes the axes of softmax's input to `[*b, T, S]`."""
        order = self._order_of_product
        if self._contracted is not None and self._contracted == order[-2]:
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
            moved = layouts.has_layout(self.steps_after)
            return tuple(known) if len(known) == dims and not moved else tuple(range(dims))
        if self._index is None:
            return trail.out_order
        rows, columns = layouts.axis_roles(self._index, trail.out_shape, *trail.out_order[-2:])
        rest = [axis for axis in range(dims) if axis not in (rows, columns)]
        return (*rest, rows, columns)

    @cached_property
    def _index(self) -> Tensor | None:
        """Where each place of softmax's input stands in the product; None: in the same place."""
        trail = self.scores_trail
        if trail is None or not layouts.has_layout(trail.steps):
            return None
        return layouts.moved(trail.out_shape, trail.steps, self.given.tensor.device)

    @cached_property
    def _contracted(self) -> int | None:
        """The axis of softmax's input that the product with the values sums over."""
        if not self.applied_order:
            return None
        axis = self.applied_order[-1]
        assert axis is not None
        if not layouts.has_layout(self.steps_after):
            return axis
        shape = tuple(self.given.tensor.shape)
        index = layouts.moved(shape, self.steps_after, self.given.tensor.device)
        step = layouts.first_step(index, axis, shape)
        if step is None:
            return None
        ran_over = [place for place, size in enumerate(step) if size]
        return ran_over[0] if len(ran_over) == 1 else None

    @cached_property
    def _foreign(self) -> Tensor | None:
        """`[S]`, True for columns that were joined to the scores and are no keys."""
        if self._index is None:
            return None
        columns = self._index.permute(self._order).flatten(0, -2)[0]
        return columns < 0 if bool((columns < 0).any()) else None

    def _ordered(self, tensor: Tensor) -> Tensor:
        """What has the layout of softmax's input, as `[*b, T, S]`."""
        tensor = tensor.permute(self._order)
        return tensor if self._foreign is None else tensor[..., ~self._foreign]

    def _four(self, tensor: Tensor) -> Tensor:
        """`[*b, X, Y]` as `[B, H, X, Y]`."""
        if tensor.dim() == 2:
            return tensor[None, None]
        if tensor.dim() == 3:
            if self.heads is not None and math.prod(self.heads) == tensor.shape[0]:
                return tensor.reshape(*self.heads, *tensor.shape[1:])
            return tensor[:, None]
        return tensor.flatten(1, -3)

    # --- the product of queries and keys -----------------------------------------------------

    def operands(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """See `Evidence`."""
        trail = self.scores_trail
        value = self._value()
        if trail is None:
            return None, None, value
        rows = self._operand(trail.left, trail.left_order, trail.factors[0], -2)
        columns = self._operand(trail.right, trail.right_order, trail.factors[1], -1)
        return (columns, rows, value) if self._swapped else (rows, columns, value)

    def _operand(
        self, kept: Kept, order: tuple[int | None, ...], factor: float, side: int
    ) -> Tensor:
        """A product's operand, its rows where softmax's input has them, before scaling.

        `side` is its axis of the product: -2 rows, -1 columns.
        """
        trail = self.scores_trail
        assert trail is not None
        tensor = arrange(kept.tensor, order)
        batch = [trail.out_shape[axis] for axis in trail.out_order[:-2]]
        tensor = tensor.expand(*batch, *tensor.shape[-2:])
        if self._index is not None:
            index = self._ordered(self._index)
            runs_over_queries = (side == -2) != self._swapped
            places = index[..., :, 0] if runs_over_queries else index[..., 0, :]
            axes = (*trail.out_order[:-2], trail.out_order[side])
            tensor = layouts.gather_rows(tensor, places, trail.out_shape, axes)
        tensor = self._four(tensor)
        return tensor if factor == 1 else tensor / factor

    def scale(self) -> float | None:
        """See `Evidence`."""
        return None if self.scores_trail is None else self.scores_trail.scale

    def key_repeats(self) -> int:
        """See `Evidence`."""
        trail = self.scores_trail
        if trail is None or self._index is None:
            return 1 if trail is None else trail.repeats
        # heads that a view made of the rows of one product share its keys
        index = self._ordered(self._index)[..., 0, 0]
        coordinates = torch.unravel_index(index.flatten(), trail.out_shape)
        axes = [coordinates[axis].tolist() for axis in trail.out_order[:-2]]
        batches = set(zip(*axes, strict=True))
        return trail.repeats * index.numel() // max(len(batches), 1)

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
            bias = self._four(self._ordered(added.masked_fill(~keep, 0.0)))
            seen = self._four(self._ordered(keep))
            bias = masks.squeeze_broadcast(bias) if masks.prefers(bias, seen) else None
        keep = self._four(self._ordered(keep))
        return (None if bool(keep.all()) else masks.squeeze_broadcast(keep)), bias, constants

    def scores(self) -> Tensor:
        """See `Evidence`."""
        return self._four(self._ordered(self.given.tensor))

    def weights(self) -> Tensor:
        """See `Evidence`."""
        return self._four(self._ordered(self.result.tensor))

    def softmax_dim(self) -> int | None:
        """See `Evidence`."""
        place = self._order.index(self.axis) - len(self._order)
        if place >= -2:
            return place
        # of the axes before, the first is the batch, the others are heads
        return -4 if self._order.index(self.axis) == 0 else -3

    # --- the product with the values ---------------------------------------------------------

    @cached_property
    def _applied_index(self) -> Tensor | None:
        """`[*b, T, S]`: where each weight stands in what multiplied the values; None: in place."""
        if self.applied is None or not layouts.has_layout(self.steps_after):
            return None
        shape = tuple(self.given.tensor.shape)
        index = layouts.moved(shape, self.steps_after, self.given.tensor.device)
        if index.shape != self.applied.tensor.shape or None in self.applied_order:
            return None
        return self._ordered(layouts.inverse(index, shape))

    def _aligned(self, tensor: Tensor) -> Tensor:
        """`[*p, X, Y]` of the value product's batch as `[*b, X, Y]` of softmax's."""
        places = [self.applied_order.index(a) for a in self._order[:-2] if a in self.applied_order]
        if len(places) != tensor.dim() - 2:
            return tensor
        return tensor.permute(*places, -2, -1)

    def applied_weights(self) -> Tensor | None:
        """See `Evidence`."""
        if self.applied is None:
            return None
        tensor, index = self.applied.tensor, self._applied_index
        if index is None:
            return self._four(self._aligned(arrange(tensor, self.applied_order)))
        return self._four(tensor.flatten()[index].masked_fill(index < 0, 0))

    def _value(self) -> Tensor | None:
        if self.value is None or self.applied is None:
            return None
        tensor = arrange(self.value.tensor, self.value_order).transpose(-1, -2)
        batch = arrange(self.applied.tensor, self.applied_order).shape[:-2]
        batch = torch.broadcast_shapes(batch, tensor.shape[:-2])  # type: ignore[no-untyped-call]
        tensor = tensor.expand(*batch, *tensor.shape[-2:])
        if self._applied_index is None:
            return self._four(self._aligned(tensor))
        return self._four(self._gathered(tensor, self._applied_index[..., 0, :], -1))

    def output(self) -> Tensor | None:
        """See `Evidence`."""
        if self.context is None:
            return None
        tensor = self.context.tensor.permute(self.context_order)
        if self._applied_index is None:
            return self._four(self._aligned(tensor))
        return self._four(self._gathered(tensor, self._applied_index[..., :, 0], -2))

    def _gathered(self, tensor: Tensor, places: Tensor, side: int) -> Tensor:
        assert self.applied is not None
        order = [axis for axis in self.applied_order if axis is not None]
        axes = (*order[:-2], order[side])
        shape = tuple(self.applied.tensor.shape)
        return layouts.gather_rows(tensor, places.clamp_min(0), shape, axes)
