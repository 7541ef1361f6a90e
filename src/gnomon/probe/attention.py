"""One attention call, as a check wants to see it, whatever the model computed it with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

import torch
from torch import Tensor

from gnomon.probe.quiet import quiet

Path = Literal["sdpa", "mha", "fused", "softmax"]


class Evidence(Protocol):
    """What one way of computing attention lets us see. All tensors are detached."""

    def operands(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Queries `[B, H, T, K]` and keys `[B, H, S, K]` before scaling; values `[B, H, S, K']`."""

    def scale(self) -> float | None:
        """The factor on q · k; None where it is not one number."""

    def mask(self) -> tuple[Tensor | None, Tensor | None, tuple[float, ...]]:
        """Keep `[1|B, 1|H, T, S]`, bias (broadcastable to it), constants that hide."""

    def scores(self) -> Tensor | None:
        """What softmax was given, `[B, H, T, S]`, where it was a tensor."""

    def weights(self) -> Tensor | None:
        """What softmax gave, `[B, H, T, S]`, where it was a tensor."""

    def applied_weights(self) -> Tensor | None:
        """What the values were multiplied with, `[B, H, T, S]`, where seen."""

    def output(self) -> Tensor | None:
        """`[B, H, T, K']`, where seen."""

    def key_repeats(self) -> int:
        """How many query heads share one head of keys."""

    def softmax_dim(self) -> int | None:
        """Axis of `[B, H, T, S]`, counted from the end; None where it is neither."""


@dataclass(eq=False)
class AttentionCall:
    """One call of attention. Masks are boolean, True = may attend.

    Shapes: queries `[B, H, T, K]`, keys `[B, H, S, K]`, values `[B, H, S, K']` (heads that several
    query heads share are expanded), scores and weights `[B, H, T, S]`. What is None could not be
    seen. Tensors are detached and computed or rearranged at first use.
    """

    # place among the calls of one record, from 0
    index: int
    # dotted name of the innermost module that made the call; "" is the root
    module: str
    # "sdpa": F.scaled_dot_product_attention; "mha": inside nn.MultiheadAttention; "softmax":
    # written by hand; "fused": another kernel that shows only its operands (flex_attention)
    path: Path
    # of the scores
    dtype: torch.dtype
    # the module's mode when it made the call
    training: bool
    # whether queries derive from an input that keys do not derive from
    is_cross: bool = False
    # the flag given to the fused kernel
    is_causal: bool = False
    # dtype of the mask as it was given; None without a mask
    mask_dtype: torch.dtype | None = None
    # probability of dropout on the weights (0 in evaluation mode)
    dropout: float = 0.0
    # dropout was applied to the scores
    dropout_before_softmax: bool = False
    # operations on the scores before softmax and on the weights after it, in order, by name
    transforms_before: tuple[str, ...] = ()
    transforms_after: tuple[str, ...] = ()
    # values that scores were set to or `where`d with, hiding or not (1e-9 in place of -1e9 shows)
    fills: tuple[float, ...] = ()
    # the concrete kernel behind scaled_dot_product_attention, where there was one
    kernel: str | None = None
    # the weights with their graph, for gradients; only with `observe(…, keep_graph=True)`
    weights_tensor: Tensor | None = field(default=None, repr=False)
    evidence: Evidence = field(kw_only=True, repr=False)

    @cached_property
    def _operands(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        with quiet():
            return self.evidence.operands()

    @property
    def query(self) -> Tensor | None:
        """`[B, H, T, K]`, before any scaling."""
        return self._operands[0]

    @property
    def key(self) -> Tensor | None:
        """`[B, H, S, K]`, before any scaling."""
        return self._operands[1]

    @property
    def value(self) -> Tensor | None:
        """`[B, H, S, K']`."""
        return self._operands[2]

    @property
    def scale(self) -> float | None:
        """The factor really applied to q · k, wherever it was applied."""
        return self.evidence.scale()

    @cached_property
    def _mask(self) -> tuple[Tensor | None, Tensor | None, tuple[float, ...]]:
        with quiet():
            return self.evidence.mask()

    @property
    def keep(self) -> Tensor | None:
        """`[1|B, 1|H, T, S]`, True = may attend; None: all may."""
        return self._mask[0]

    @property
    def bias(self) -> Tensor | None:
        """The finite part of what is added to the scores, broadcastable to `[B, H, T, S]`."""
        return self._mask[1]

    @property
    def mask_constants(self) -> tuple[float, ...]:
        """Distinct values that hide keys, as they stand in the scores' dtype."""
        return self._mask[2]

    @cached_property
    def raw_scores(self) -> Tensor | None:
        """q · k without scale, mask or bias, in fp32 or better."""
        if self.query is None or self.key is None:
            return None
        with quiet():
            wide = torch.promote_types(self.query.dtype, torch.float32)
            return self.query.to(wide) @ self.key.to(wide).transpose(-1, -2)

    @cached_property
    def scores(self) -> Tensor | None:
        """What softmax is given: the tensor itself, or recomputed in fp32 or better."""
        with quiet():
            real = self.evidence.scores()
            if real is not None:
                return real
            if self.raw_scores is None or self.scale is None:
                return None
            scores = self.raw_scores * self.scale
            if self.bias is not None:
                scores = scores + self.bias
            return scores if self.keep is None else scores.masked_fill(~self.keep, -torch.inf)

    @cached_property
    def weights(self) -> Tensor | None:
        """What softmax gives, before dropout: the tensor itself, or recomputed in fp32 or better.

        Where it is recomputed, a row without any key to attend to is 0, as the kernel's is.
        """
        with quiet():
            real = self.evidence.weights()
            if real is not None:
                return real
            if self.scores is None:
                return None
            weights = self.scores.softmax(-1)
            return weights if self.keep is None else weights.masked_fill(~self.keep, 0.0)

    @cached_property
    def applied_weights(self) -> Tensor | None:
        """What really multiplied the values (after dropout), where seen."""
        with quiet():
            return self.evidence.applied_weights()

    @cached_property
    def output(self) -> Tensor | None:
        """`[B, H, T, K']`, where seen."""
        with quiet():
            return self.evidence.output()

    @cached_property
    def softmax_dim(self) -> int | None:
        """The axis of `[B, H, T, S]` that softmax ran over.

        -1 keys; -2 queries, -3 heads and -4 batch are wrong; None: not one of these.
        """
        with quiet():
            return self.evidence.softmax_dim()

    @property
    def num_key_heads(self) -> int | None:
        """Heads of keys and values before they were expanded to H."""
        if self.num_heads is None:
            return None
        with quiet():
            return self.num_heads // self.evidence.key_repeats()

    @property
    def num_heads(self) -> int | None:
        """H."""
        for tensor in (self.query, self.weights):
            if tensor is not None:
                return tensor.shape[1]
        return None
