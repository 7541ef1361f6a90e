"""Follows tensors from operation to operation, so that attention written by hand is recognised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gnomon.probe import steps
from gnomon.probe.calls import Call
from gnomon.probe.kept import Keeper, storage
from gnomon.probe.names import CASTS, LAYOUT, OPAQUE, PRODUCTS, RANDOM
from gnomon.probe.products import Product, arrange, product
from gnomon.probe.softmax import Scores, Weights
from gnomon.probe.steps import Step
from gnomon.probe.trails import Trail, Trails


def is_cross(query: Trail, key: Trail, lengths_differ: bool) -> bool:
    """Whether queries derive from something that keys do not derive from.

    Keys of a self-attention hold all that their queries do, and with a cache more; a decoder's
    queries hold its own embeddings, the encoder's output does not.
    """
    if not query.origins and not key.origins:
        return lengths_differ
    return not query.origins or not query.origins <= key.origins


class Follower:
    """Gives each result the trail that follows from its operands' trails."""

    def __init__(self, trails: Trails, keeper: Keeper, parameters: Callable[[], set[int]]) -> None:
        self._trails = trails
        self._keeper = keeper
        self._parameters = parameters
        # called with the weights and the product with the values
        self.on_values: Callable[[Weights, Product, Tensor], None] = lambda *_: None
        # called with a tensor that is multiplied with random noise, and where that is 0
        self.on_dropout: Callable[[Tensor, Tensor], None] = lambda *_: None

    def follow(self, call: Call, before: list[Trail], result: Any) -> None:
        """Set the result's trail. `before` are the trails of `call.tensors()` before the call."""
        origins = frozenset().union(*(trail.origins for trail in before)) if before else frozenset()
        random = bool(before) and all(trail.random for trail in before)
        trail = self._trail(call, before, result, Trail(origins, random=random))
        target = call.args[0] if call.name == "__setitem__" else result
        if isinstance(target, Tensor):
            self._trails[target] = trail
        elif isinstance(target, (list, tuple)):
            for item in target:
                if isinstance(item, Tensor):
                    self._trails[item] = trail

    def _trail(self, call: Call, before: list[Trail], result: Any, plain: Trail) -> Trail:
        if call.name in RANDOM:
            return Trail(random=True)
        if not before:
            return plain
        if call.name in PRODUCTS:
            return self._product(call, result, plain)
        first = before[0] if isinstance(call.args[0], Tensor) else plain
        if call.name == "cat" or call.name == "stack":
            return self._join(call, before, result, plain)
        if call.name in ("where", "masked_fill", "masked_scatter", "__setitem__", "index_fill"):
            return self._fill(call, plain)
        if call.name in LAYOUT:
            return self._layout(call, first, result, plain)
        if call.name in CASTS:
            return replace(first, origins=plain.origins)
        if call.name in ("mul", "div"):
            return self._multiply(call, plain)
        if call.name in ("add", "sub", "rsub"):
            return self._add(call, plain)
        if call.name == "neg":
            return self._scaled(first, "neg", -1.0, plain)
        if call.name == "repeat_interleave":
            count = call.argument(1, "repeats")
            many = count if isinstance(count, int) else 1
            return replace(plain, factor=first.factor, repeats=first.repeats * many)
        if call.name in ("max", "amax", "logsumexp") and first.scores is not None:
            if isinstance(call.argument(1, "other"), Tensor):  # element by element: a bound
                return self._opaque(call, first, plain)
            return replace(plain, part="maximum")
        if call.name in OPAQUE:
            return self._opaque(call, first, plain)
        return plain

    # --- products ---------------------------------------------------------------------------

    def _product(self, call: Call, result: Any, plain: Trail) -> Trail:
        found = product(call.name, call.args, call.kwargs)
        if found is None or not isinstance(result, Tensor):
            return plain
        for flipped in (False, True):
            weights = self._trails[found.right if flipped else found.left].weights
            if weights is not None:
                self.on_values(weights, found.flipped() if flipped else found, result)
                return plain
        if not result.is_floating_point():
            return plain
        return replace(plain, scores=self._new_scores(call, found, result))

    def _new_scores(self, call: Call, found: Product, result: Tensor) -> Scores:
        left, right = self._trails[found.left], self._trails[found.right]
        parameters = self._parameters()
        ends = storage(found.left) in parameters or storage(found.right) in parameters
        lengths_differ = result.shape[found.out_order[-2]] != result.shape[found.out_order[-1]]
        scores = Scores(
            left=self._keeper.keep(found.left),
            right=self._keeper.keep(found.right),
            left_order=found.left_order,
            right_order=found.right_order,
            out_order=found.out_order,
            out_shape=tuple(result.shape),
            dtype=result.dtype,
            factors=(left.factor, right.factor),
            heads=left.merged or right.merged,
            doubtful=ends or result.dim() < 3,
            origins=(left.origins, right.origins),
            lengths_differ=lengths_differ,
            repeats=right.repeats * _shared(found, result),
            scale=left.factor * right.factor * found.alpha,
        )
        if found.added is not None:
            step = steps.add(call.name, self._held(found.added), found.beta)
            scores = self._step(scores, step, mask=found.added)
        return scores

    # --- one operation on scores, weights or anything ---------------------------------------

    def _step(self, scores: Scores, step: Step, *, mask: Any = None, **changes: Any) -> Scores:
        if isinstance(mask, Tensor) and scores.mask_dtype is None:
            changes["mask_dtype"] = mask.dtype
        return replace(scores, steps=(*scores.steps, step), **changes)

    def _both(self, trail: Trail, step: Step, plain: Trail, **changes: Any) -> Trail:
        """The trail of scores or weights after a step; `plain` if it has neither."""
        if trail.scores is not None and trail.part is None:
            return replace(plain, scores=self._step(trail.scores, step, **changes))
        if trail.weights is not None:
            after = replace(trail.weights, steps=(*trail.weights.steps, step))
            return replace(plain, weights=after, part=trail.part)
        return plain

    def _layout(self, call: Call, first: Trail, result: Any, plain: Trail) -> Trail:
        source = call.args[0]
        if call.name == "__getitem__" and not _is_basic(call.args[1]):
            return plain
        if isinstance(result, Tensor):
            plain = replace(
                plain,
                factor=first.factor,
                repeats=first.repeats * _repeats(call.name, source),
                merged=_merged(tuple(source.shape), tuple(result.shape)) or first.merged,
                output=first.output,
            )
            inside = None if first.weights is None else first.weights.evidence
            for evidence in (first.output, inside):
                if evidence is not None and evidence.heads is None:
                    evidence.heads = _merged(tuple(result.shape), tuple(source.shape))
            moves = result.shape != source.shape or call.name not in ("contiguous", "clone", "data")
            if not moves or call.name == "detach":
                return replace(first, origins=plain.origins)
            step = steps.layout(call.name, call.func, call.args[1:], call.kwargs)
            return self._both(first, step, plain)
        return replace(plain, factor=first.factor)

    def _multiply(self, call: Call, plain: Trail) -> Trail:
        left, right = call.args[0], call.argument(1, "other")
        if call.name == "mul" and isinstance(left, Tensor) and isinstance(right, Tensor):
            ours, theirs = self._on_path(left), self._on_path(right)
            if (theirs and not ours) or (ours == theirs and left.numel() == 1):
                left, right = right, left
        if not isinstance(left, Tensor):
            return plain
        trail = self._trails[left]
        number = _number(right)
        if number is not None:
            if call.name == "div":
                number = 1 / number if number else float("inf")
            return self._scaled(trail, call.name, number, plain)
        if not isinstance(right, Tensor):
            return plain
        if trail.part == "exp":  # softmax by hand, with a mask on the exponentials
            return self._excluded(call, trail, right, plain)
        if self._trails[right].random != self._trails[left].random:
            noise = right if self._trails[right].random else left
            self.on_dropout(left if noise is right else right, noise == 0)
            return self._dropped(trail, noise == 0, plain)
        step = steps.multiply(call.name, self._held(right))
        plain = replace(plain, factor=trail.factor * self._trails[right].factor)
        if trail.scores is not None and not bool(((right == 0) | (right == 1)).all()):
            # no longer one number; where a mask is multiplied, the scale of the rest stays
            trail = replace(trail, scores=replace(trail.scores, scale=None))
        return self._both(trail, step, plain)

    def _excluded(self, call: Call, trail: Trail, mask: Tensor, plain: Trail) -> Trail:
        assert trail.scores is not None
        step = steps.exclude(call.name, self._held(mask))
        scores = self._step(trail.scores, step, mask=mask)
        return replace(trail, origins=plain.origins, scores=scores)

    def _dropped(self, trail: Trail, zeroed: Tensor | float, plain: Trail) -> Trail:
        """The trail of scores or weights after dropout; `zeroed` marks or counts what is lost."""
        p = zeroed if isinstance(zeroed, float) else float(zeroed.float().mean())
        step = steps.other("dropout")
        if trail.scores is not None and trail.part is None:
            dropped = max(p, trail.scores.dropped)
            return replace(plain, scores=self._step(trail.scores, step, dropped=dropped))
        if trail.weights is not None:
            after = (*trail.weights.steps, step)
            dropout = max(p, trail.weights.dropout)
            return replace(plain, weights=replace(trail.weights, steps=after, dropout=dropout))
        return replace(plain, factor=trail.factor)

    def _scaled(self, trail: Trail, name: str, number: float, plain: Trail) -> Trail:
        if trail.scores is not None and trail.part is None:
            scale = None if trail.scores.scale is None else trail.scores.scale * number
            step = steps.scale(name, number)
            return replace(plain, scores=self._step(trail.scores, step, scale=scale))
        if trail.weights is not None:
            return self._both(trail, steps.scale(name, number), plain)
        return replace(
            plain,
            factor=trail.factor * abs(number),  # a sign is part of the tensor
            repeats=trail.repeats,
            merged=trail.merged,
        )

    def _add(self, call: Call, plain: Trail) -> Trail:
        left, right = call.args[0], call.argument(1, "other")
        sign = 1.0 if call.name == "add" else -1.0
        sign *= float(call.kwargs.get("alpha", 1))
        left_trail = self._trails[left] if isinstance(left, Tensor) else Trail()
        right_trail = self._trails[right] if isinstance(right, Tensor) else Trail()
        if right_trail.part == "maximum" and left_trail.scores is not None:
            return replace(left_trail, origins=plain.origins)  # softmax does not see the shift
        if left_trail.part == "sum" and _number(right) is not None:
            return replace(left_trail, origins=plain.origins)  # against division by zero
        if left_trail.scores is not None or left_trail.weights is not None:
            if call.name == "rsub":
                negated = self._scaled(left_trail, "rsub", -1.0, plain)
                return self._both(negated, steps.add("rsub", self._held(right)), plain, mask=right)
            step = steps.add(call.name, self._held(right), sign)
            return self._both(left_trail, step, plain, mask=right)
        if right_trail.scores is not None or right_trail.weights is not None:
            if sign != 1:
                right_trail = self._scaled(right_trail, call.name, sign, plain)
            return self._both(right_trail, steps.add("add", self._held(left)), plain, mask=left)
        if left_trail.factor == right_trail.factor:
            return replace(plain, factor=left_trail.factor)
        return plain

    def _fill(self, call: Call, plain: Trail) -> Trail:
        """Scores or weights that are overwritten in places."""
        if call.name == "where":
            condition, first, second = call.args if len(call.args) == 3 else (None, None, None)
            if isinstance(condition, Tensor) and condition.dtype != torch.bool:
                # x.where(condition, other)
                condition, first = first, condition
            if not isinstance(condition, Tensor):
                return plain
            if isinstance(first, Tensor) and self._on_path(first):
                return self._filled(call.name, first, ~condition, second, condition, plain)
            if isinstance(second, Tensor) and self._on_path(second):
                return self._filled(call.name, second, condition, first, condition, plain)
            return plain
        target = call.args[0]
        if not isinstance(target, Tensor) or not self._on_path(target):
            return self._trails[target] if call.name == "__setitem__" else plain
        if call.name == "masked_fill":
            where, value = call.argument(1, "mask"), call.argument(2, "value")
            return self._filled(call.name, target, where, value, where, plain)
        if call.name == "__setitem__":
            place, value = call.args[1], call.args[2]
            step = steps.assign(call.name, self._held(place), self._held(value))
            return self._with_fill(target, step, value, place, plain)
        return self._both(self._trails[target], steps.other(call.name), plain)

    def _filled(
        self, name: str, target: Tensor, where: Tensor, value: Any, mask: Tensor, plain: Trail
    ) -> Trail:
        step = steps.fill(name, self._held(where), self._held(value))
        return self._with_fill(target, step, value, mask, plain)

    def _with_fill(self, target: Tensor, step: Step, value: Any, mask: Any, plain: Trail) -> Trail:
        trail = self._trails[target]
        number = _number(value)
        if isinstance(mask, Tensor) and self._trails[mask].random and number == 0:
            self.on_dropout(target, mask)
            return self._dropped(trail, mask, plain)
        after = self._both(trail, step, plain, mask=mask)
        if after.scores is not None and number is not None:
            filled = tuple(dict.fromkeys((*after.scores.fills, number)))
            after = replace(after, scores=replace(after.scores, fills=filled))
        return after

    def _join(self, call: Call, before: list[Trail], result: Any, plain: Trail) -> Trail:
        parts = call.args[0]
        if not isinstance(parts, (list, tuple)):
            return plain
        trails = [self._trails[part] for part in parts if isinstance(part, Tensor)]
        factors = {trail.factor for trail in trails}
        if len(factors) == 1:
            plain = replace(plain, factor=factors.pop())
        followed = [trail for trail in trails if trail.scores is not None]
        if len(followed) == 1 and call.name == "cat":
            scores = followed[0].scores
            others = [
                None if trail.scores is scores else part.detach()
                for part, trail in zip(parts, trails, strict=True)
            ]
            step = steps.join(call.name, others, call.argument(1, "dim", 0))
            return self._both(followed[0], step, plain)
        return plain

    def _opaque(self, call: Call, first: Trail, plain: Trail) -> Trail:
        if call.name == "dropout":
            p = float(call.argument(1, "p", 0.5)) if call.argument(2, "training", True) else 0.0
            return self._dropped(first, p, plain)
        if first.part == "sum" and call.name == "clamp":
            return replace(first, origins=plain.origins)
        return self._both(first, steps.other(call.name), plain)

    def _on_path(self, tensor: Tensor) -> bool:
        trail = self._trails[tensor]
        return trail.scores is not None or trail.weights is not None

    def _held(self, value: Any) -> Any:
        """A mask or number as a step may keep it."""
        return value.detach() if isinstance(value, Tensor) else value


def _shared(found: Product, result: Tensor) -> int:
    """How many heads of the result share one head of the right operand, by broadcasting."""
    right = arrange(found.right, found.right_order)
    shared = 1
    for place, axis in enumerate(found.out_order[:-2]):
        if place and right.shape[place] == 1:
            shared *= result.shape[axis]
    return shared


def _number(value: Any) -> float | None:
    """A factor that is one number; None where it is a whole tensor."""
    if isinstance(value, Tensor):
        return float(value.detach()) if value.numel() == 1 and value.device.type != "meta" else None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _is_basic(place: Any) -> bool:
    """Whether an index is made of slices, numbers and None alone: a view."""
    places = place if isinstance(place, tuple) else (place,)
    return all(p is None or p is Ellipsis or isinstance(p, (slice, int)) for p in places)


def _repeats(name: str, source: Tensor) -> int:
    """How often a tensor about to be reshaped repeats each of its heads (`expand`, then merge)."""
    if name not in ("reshape", "flatten", "contiguous", "clone"):
        return 1
    repeated = 1
    for size, stride in list(zip(source.shape, source.stride(), strict=True))[1:-2]:
        if stride == 0:
            repeated *= size
    return repeated


def _merged(apart: tuple[int, ...], together: tuple[int, ...]) -> tuple[int, int] | None:
    """`[batch, heads]` if a view from one shape to the other merges them into one axis."""
    if len(together) != 3:
        return None
    if len(apart) == 4 and apart[0] * apart[1] == together[0] and apart[2:] == together[1:]:
        return apart[0], apart[1]
    if len(apart) == 3 and apart[0] == together[0] and together[2] and apart[1]:
        batch, many = apart[1], together[1]
        if many > batch and many % batch == 0 and apart[2] == many // batch * together[2]:
            return batch, many // batch
    return None
