"""Who may attend to whom: boolean masks (True = may attend) and the score bias beside them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


def padding_mask(keep: Tensor) -> Tensor:
    """`[B, S]` True at real tokens, as `[B, 1, 1, S]`: nobody attends to padding."""
    return keep[:, None, None, :]


def look_ahead_mask(num_queries: int, num_keys: int, device: torch.device) -> Tensor:
    """`[1, 1, T, S]`: nobody attends to later tokens.

    The queries are the last `num_queries` of the `num_keys` tokens (bottom-right aligned), as in
    decoding with a cache.
    """
    offset = offsets(num_queries, num_keys, device)
    return (offset >= 0)[None, None]


def offsets(num_queries: int, num_keys: int, device: torch.device) -> Tensor:
    """`[T, S]`: how many tokens each key lies before each query (negative: after it)."""
    queries = torch.arange(num_keys - num_queries, num_keys, device=device)
    return queries[:, None] - torch.arange(num_keys, device=device)


@dataclass(eq=False)
class Mask:
    """All that decides who attends to whom, built once per forward and shared by the layers.

    `keep` is None when nothing is masked, or when `causal` says it all: `causal` is set only
    where T == S and nothing else is masked, so that a fused kernel may apply it by itself.
    Queries without any key to attend to are marked in `empty` and see every key in `keep`
    instead, so that no softmax meets a row of minus infinities; `attend` zeroes their output.
    """

    num_queries: int
    num_keys: int
    device: torch.device
    keep: Tensor | None = None  # bool, broadcastable to [B, H, T, S]
    causal: bool = False
    bias: Tensor | None = None  # float, broadcastable to [B, H, T, S]; added to the scores
    empty: Tensor | None = None  # bool, broadcastable to [B, H, T, 1]
    additive_by_dtype: dict[torch.dtype, Tensor | None] = field(default_factory=dict)

    def boolean(self) -> Tensor | None:
        """The whole mask as booleans, or None where everyone sees everyone."""
        if self.causal:
            return look_ahead_mask(self.num_queries, self.num_keys, self.device)
        return self.keep

    def additive(self, dtype: torch.dtype) -> Tensor | None:
        """What to add to scores of `dtype`: the bias, or the smallest finite number where masked.

        Never a literal constant: -1e9 does not exist in float16.
        """
        if dtype not in self.additive_by_dtype:
            keep = self.boolean()
            bias = None if self.bias is None else self.bias.to(dtype)
            if keep is not None:
                if bias is None:
                    bias = torch.zeros((), dtype=dtype, device=self.device)
                bias = torch.where(keep, bias, torch.finfo(dtype).min)
            self.additive_by_dtype[dtype] = bias
        return self.additive_by_dtype[dtype]


def build_mask(
    *,
    num_queries: int,
    num_keys: int,
    device: torch.device,
    keep: Tensor | None = None,
    causal: bool = False,
    pattern: Tensor | None = None,
    bias: Tensor | None = None,
) -> Mask:
    """Combine padding, look-ahead, attention pattern and score bias into one `Mask`.

    Args:
        num_queries: T; the queries are the last T of the keys when `causal`.
        num_keys: S.
        device: where the model computes.
        keep: bool `[B, S]`, True at real tokens; None when there is no padding.
        causal: whether later tokens are hidden.
        pattern: bool `[1, 1, T, S]` of a sparse attention pattern.
        bias: float `[1, H, T, S]`, added to the scores.
    """
    if keep is not None and not torch.compiler.is_compiling() and bool(keep.all()):
        keep = None  # a mask that hides nothing only slows the kernels down
    causal = causal and num_queries > 1  # the last token sees all that there is
    if keep is None and pattern is None:
        fused = causal and num_queries == num_keys and bias is None
        combined = look_ahead_mask(num_queries, num_keys, device) if causal and not fused else None
        return Mask(num_queries, num_keys, device, keep=combined, causal=fused, bias=bias)
    combined = pattern
    if causal:
        ahead = look_ahead_mask(num_queries, num_keys, device)
        combined = ahead if combined is None else combined & ahead
    if keep is not None:
        combined = padding_mask(keep) if combined is None else combined & padding_mask(keep)
    assert combined is not None
    empty: Tensor | None = ~combined.any(dim=-1, keepdim=True)
    assert empty is not None
    if not torch.compiler.is_compiling() and not bool(empty.any()):
        empty = None
    else:
        combined = combined | empty
    return Mask(num_queries, num_keys, device, keep=combined, bias=bias, empty=empty)


def sliding_window_mask(
    num_queries: int, num_keys: int, window: int, device: torch.device
) -> Tensor:
    """`[1, 1, T, S]`: keys less than `window` tokens away, on either side."""
    return (offsets(num_queries, num_keys, device).abs() < window)[None, None]


def block_sparse_mask(
    num_queries: int, num_keys: int, block_size: int, num_global: int, device: torch.device
) -> Tensor:
    """`[1, 1, T, S]`: keys in the query's own block and its neighbours, and global tokens.

    The first `num_global` tokens see everyone and are seen by everyone (Beltagy et al., 2020;
    Zaheer et al., 2020, without the random blocks).
    """
    key = torch.arange(num_keys, device=device)
    query = key[num_keys - num_queries :, None]
    near = (query // block_size - key // block_size).abs() <= 1
    return (near | (key < num_global) | (query < num_global))[None, None]
