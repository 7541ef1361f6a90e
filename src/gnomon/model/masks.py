"""Who may attend to whom: boolean masks (True = may attend) and the score bias beside them."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from gnomon.model.documents import Documents
from gnomon.model.patterns import Pattern
from gnomon.model.score_bias import ScoreBias
from gnomon.model.unpadded import Unpadded


def padding_mask(keep: Tensor) -> Tensor:
    """`[B, S]` True at real tokens, as `[B, 1, 1, S]`: nobody attends to padding."""
    return keep[:, None, None, :]


def look_ahead_mask(num_queries: int, num_keys: int, device: torch.device) -> Tensor:
    """`[1, 1, T, S]`: nobody attends to later tokens.

    The queries are the last `num_queries` of the `num_keys` tokens (bottom-right aligned), as in
    decoding with a cache.
    """
    keys = torch.arange(num_keys, device=device)
    return (keys[num_keys - num_queries :, None] >= keys)[None, None]


class Mask:
    """All that decides who attends to whom, made once per forward and shared by the layers.

    Tensors are built when a backend first asks for them, so nobody pays for a form that is not
    used.

    Args:
        num_queries: T; the queries are the last T of the keys where order matters.
        num_keys: S.
        device: where the model computes.
        padding: bool `[B, S]`, True at real tokens; None: no padding.
        causal: whether later tokens are hidden.
        pattern: a sparse attention pattern.
        places: int `[S]` or `[B, S]`, where in the whole text the keys stand, padding not counted;
            None: counted here. Read by `pattern` only.
        global_tokens: bool `[B, S]`, tokens that are global beside those of `pattern`.
        documents: of rows that hold several, none of which sees another; T == S.
        limit: any other limit, bool, broadcastable to `[B, 1, T, S]`.
        bias: float, broadcastable to `[B, H, T, S]`, added to the scores.
        score_bias: makes the bias from how far apart queries and keys stand.

    Attributes:
        query_rows: how the queries' tokens stand, where their padding is left out; None: as rows.
        key_rows: the same of the keys' tokens.
    """

    def __init__(
        self,
        num_queries: int,
        num_keys: int,
        device: torch.device,
        *,
        padding: Tensor | None = None,
        causal: bool = False,
        pattern: Pattern | None = None,
        places: Tensor | None = None,
        global_tokens: Tensor | None = None,
        documents: Documents | None = None,
        limit: Tensor | None = None,
        bias: Tensor | None = None,
        score_bias: ScoreBias | None = None,
    ) -> None:
        self.num_queries = num_queries
        self.num_keys = num_keys
        self.device = device
        # A mask that hides nothing only slows the kernels down.
        hides = padding is not None and not (can_ask(padding) and bool(padding.all()))
        self.padding = padding if hides else None
        self.causal = causal and bool(num_queries > 1)  # the last token sees all that there is
        self.pattern = pattern
        self.given_places = places
        self.global_tokens = global_tokens
        self.documents = documents
        self.limit = limit
        self.given_bias = bias
        self.score_bias = score_bias
        self.query_rows: Unpadded | None = None
        self.key_rows: Unpadded | None = None
        # How it is computed in blocks and by FlexAttention, kept by whoever does it.
        self.plan: object = None
        self.flex_blocks: object = None
        self._additive: dict[torch.dtype, Tensor | None] = {}
        self._of_groups: dict[int, Mask] = {}

    def of_group(self, number: int) -> Mask:
        """The same for the documents of one group, each a row of its own."""
        assert self.documents is not None
        if number not in self._of_groups:
            group = self.documents.groups[number]
            length = group.places.shape[1]
            self._of_groups[number] = Mask(
                length,
                length,
                self.device,
                # Padding stands behind the text: looking back nobody sees it.
                padding=None if self.causal else group.real,
                causal=self.causal,
                pattern=self.pattern,
                bias=None if self.given_bias is None else self.given_bias[..., :length, :length],
                score_bias=self.score_bias,
            )
        return self._of_groups[number]

    @cached_property
    def only_causal(self) -> bool:
        """Whether look-ahead over T == S says it all, which fused kernels apply by themselves."""
        limits = (self.padding, self.pattern, self.documents, self.limit)
        others = (*limits, self.given_bias, self.score_bias)
        alone = all(other is None for other in others)
        return self.causal and alone and bool(self.num_queries == self.num_keys)

    @cached_property
    def bias(self) -> Tensor | None:
        """What is added to the scores, broadcastable to `[B, H, T, S]`; None: nothing."""
        if self.score_bias is None:
            return self.given_bias
        bias: Tensor = self.score_bias(self.num_queries, self.num_keys, self.device)
        return bias

    @cached_property
    def real(self) -> Tensor:
        """Bool `[B or 1, S]`: tokens that are no padding."""
        if self.padding is not None:
            return self.padding
        return torch.ones((1, self.num_keys), dtype=torch.bool, device=self.device)

    @cached_property
    def ends_with_padding(self) -> bool:
        """Whether all padding, if there is any, is known to stand behind the texts."""
        if self.padding is None:
            return True
        if not can_ask(self.padding):
            return False
        begins = self.padding[:, 1:] & ~self.padding[:, :-1]
        return not bool(begins.any())

    @cached_property
    def places(self) -> Tensor:
        """Int `[B or 1, S]`: where in the text the keys stand, padding not counted."""
        if self.given_places is not None:
            return self.given_places.view(-1, self.num_keys)
        if self.documents is not None:
            return self.documents.positions
        if self.ends_with_padding:
            return torch.arange(self.num_keys, device=self.device)[None]
        return (self.real.cumsum(dim=-1) - 1).clamp(min=0)

    @cached_property
    def is_global(self) -> Tensor:
        """Bool `[B or 1, S]`: tokens that see all and are seen by all."""
        assert self.pattern is not None
        first = self.places < self.pattern.num_global
        chosen = first if self.global_tokens is None else first | self.global_tokens
        return chosen & self.real

    @cached_property
    def num_global(self) -> int:
        """How many global tokens a text has at most."""
        assert self.pattern is not None
        if self.global_tokens is not None:
            return int(self.is_global.sum(dim=-1).max())
        return min(self.pattern.num_global, self.num_keys)

    def _seen_by_pattern(self) -> Tensor:
        """Bool `[B or 1, 1, T, S]`: what the pattern and its global tokens allow."""
        assert self.pattern is not None
        key = self.places[:, None, None, :]
        first = self.num_keys - self.num_queries
        seen = self.pattern.near(key[..., first:].transpose(-2, -1), key)
        if self.pattern.num_global == 0 and self.global_tokens is None:
            return seen
        to_all = self.is_global[:, None, None, :]
        return seen | to_all | to_all[..., first:].transpose(-2, -1)

    @cached_property
    def combined(self) -> Tensor | None:
        """Logical and of all limits, broadcastable to `[B, 1, T, S]`; None: all see all."""
        size = (self.num_queries, self.num_keys, self.device)
        limits = [] if self.limit is None else [self.limit]
        if self.documents is not None:
            limits.append(self.documents.same)
        if self.pattern is not None:
            limits.append(self._seen_by_pattern())
        if self.causal:
            limits.append(look_ahead_mask(*size))
        if self.padding is not None:
            limits.append(padding_mask(self.padding))
        if not limits:
            return None
        result = limits[0]
        for limit in limits[1:]:
            result = result & limit
        return result

    @cached_property
    def empty(self) -> Tensor | None:
        """`[B, 1, T, 1]`, True at queries without any key to see; None where there are none."""
        if self.padding is None and self.limit is None:
            return None  # every token sees itself; asking would build a T x S mask
        if self.combined is None:
            return None
        empty = ~self.combined.any(dim=-1, keepdim=True)
        return None if can_ask(empty) and not bool(empty.any()) else empty

    @cached_property
    def keep(self) -> Tensor | None:
        """`combined`, but queries in `empty` see everything: no softmax meets an empty row.

        `attend` zeroes what they bring home.
        """
        if self.combined is None or self.empty is None:
            return self.combined
        return self.combined | self.empty

    def build(self, dtype: torch.dtype) -> list[Tensor]:
        """All that a dense backend asks for with scores of `dtype`, now; whatever is no constant.

        Compiled code must find it there: what it asks about values is not known to a compiler.
        """
        _ = self.only_causal
        built = (self.combined, self.empty, self.keep, self.bias, self.additive(dtype))
        return [each for each in built if each is not None]

    def additive(self, dtype: torch.dtype) -> Tensor | None:
        """What to add to scores of `dtype`: the bias, or the smallest finite number where masked.

        Never a literal constant: -1e9 does not exist in float16.
        """
        if dtype not in self._additive:
            result = None if self.bias is None else self.bias.to(dtype)
            if self.keep is not None:
                kept = self.keep.new_zeros((), dtype=dtype) if result is None else result
                result = torch.where(self.keep, kept, torch.finfo(dtype).min)
            self._additive[dtype] = result
        return self._additive[dtype]


def can_ask(tensor: Tensor) -> bool:
    """Whether values may steer the code: not while it is recorded, nor on the meta device."""
    return not torch.compiler.is_compiling() and not tensor.is_meta
