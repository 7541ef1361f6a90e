"""Rows without their padding: what needs no row is computed for real tokens only.

Padding is computed like a token, to be thrown away. Between `Unpadded.pack` and `unpack` a stack
holds the real tokens of all rows one after another, `[1, N, D]`: projections, feed-forward, norms
and dropout never see padding. Attention alone wants rows; the tokens' heads are brought into them,
and out again, by the copy that would have taken the heads apart in any case.

States of real tokens and gradients are those of padded rows up to rounding. Dropout draws for real
tokens only: other draws than with padding, from the same distribution.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Unpadding = Literal["auto", "always", "never"]

LEAST_SAVED = 2**23
"""Padding tokens of a batch times D², from which on leaving them out pays on a CPU.

Moving heads by index costs a layer some 2 ms of small operations whatever its width, a token of
padding some 70 D² operations (benchmarks/unpadded.py).
"""

_mode: ContextVar[Unpadding] = ContextVar("unpadding", default="never")


@contextmanager
def unpadding(mode: Unpadding) -> Iterator[None]:
    """Leave padding out of the passes in the block: always, where it pays, or never."""
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def unpadded(keep: Tensor | None, width: int) -> Unpadded | None:
    """How to leave out the tokens that are not in `keep`, `[B, L]`; None: not to be done.

    Args:
        keep: bool, True at real tokens; None: all are.
        width: D.
    """
    mode = _mode.get()
    if mode == "never" or keep is None or torch.compiler.is_compiling():
        return None
    # Asking a GPU how much padding there is would stop it.
    if mode == "auto" and (
        keep.device.type != "cpu" or _num_padding(keep) * width**2 < LEAST_SAVED
    ):
        return None
    return Unpadded(keep)


def _num_padding(keep: Tensor) -> int:
    return keep.numel() - int(keep.sum())


class Unpadded:
    """Where the real tokens of padded rows stand.

    Args:
        keep: bool `[B, L]`, True at real tokens.
    """

    def __init__(self, keep: Tensor) -> None:
        self.shape = keep.shape
        flat = keep.flatten()
        self.places = flat.nonzero()[:, 0]  # of each real token its place in the rows, [N]
        num_real = len(self.places)
        # Of each place its token; of padding the row of zeros that is put behind all tokens.
        numbers = flat.cumsum(0) - 1
        self.numbers = torch.where(flat, numbers, num_real).view(self.shape)
        self._moves: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}

    def pack(self, x: Tensor) -> Tensor:
        """`[B, L, D]` as `[1, N, D]`."""
        flat = x.flatten(0, 1)
        packed: Tensor = _Move.apply(flat, self.places, self.numbers.flatten())  # type: ignore[no-untyped-call]
        return packed.unsqueeze(0)

    def unpack(self, x: Tensor) -> Tensor:
        """`[1, N, D]` as `[B, L, D]`, zeros at padding."""
        rows: Tensor = _Move.apply(x.squeeze(0), self.numbers.flatten(), self.places)  # type: ignore[no-untyped-call]
        return rows.view(*self.shape, -1)

    def split_heads(self, x: Tensor, parts: tuple[int, ...], head_size: int) -> list[Tensor]:
        """The heads of real tokens in rows: for each part `[B, heads, L, K]`, zeros at padding.

        Args:
            x: `[1, N, sum(parts) * K]`.
            parts: heads of each, as queries, keys and values of one product.
            head_size: K.
        """
        B, L = self.shape
        to_rows, to_tokens = self._move(parts)
        heads: Tensor = _Move.apply(x.view(-1, head_size), to_rows, to_tokens)  # type: ignore[no-untyped-call]
        sizes = [B * part * L for part in parts]
        return [
            each.view(B, part, L, head_size)
            for each, part in zip(torch.split(heads, sizes), parts, strict=True)
        ]

    def merge_heads(self, x: Tensor) -> Tensor:
        """`[B, H, L, K]` as `[1, N, H * K]`."""
        H, K = x.shape[1], x.shape[3]
        to_rows, to_tokens = self._move((H,))
        tokens: Tensor = _Move.apply(x.reshape(-1, K), to_tokens, to_rows)  # type: ignore[no-untyped-call]
        return tokens.view(1, -1, H * K)

    def _move(self, parts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Of each head in rows its number among the tokens', and the other way round."""
        if parts not in self._moves:
            (B, L), P = self.shape, sum(parts)
            device = self.places.device
            row, column = self.places // L, self.places % L
            to_rows, to_tokens, first, filled = [], [], 0, 0
            for part in parts:
                head = torch.arange(part, device=device)
                of_token = self.numbers[:, None, :] * P + first + head[:, None]
                # All padding takes the first row of zeros behind the heads of all tokens.
                to_rows.append(of_token.clamp(max=len(self.places) * P).flatten())
                in_rows = (row[:, None] * part + head) * L + column[:, None]
                to_tokens.append(in_rows + filled)
                first += part
                filled += B * part * L
            self._moves[parts] = torch.cat(to_rows), torch.cat(to_tokens, dim=1).flatten()
        return self._moves[parts]


class _Move(torch.autograd.Function):
    """Rows of `x` at `places`, one past the end being zeros; the gradient goes back at `back`.

    No row is asked for twice, so that the gradient is a copy, too: that of indexing would add.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor, back: Tensor) -> Tensor:
        ctx.places, ctx.back = places, back
        return _rows(x, places, len(back) < len(places))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        places, back = ctx.places, ctx.back
        return _rows(gradient, back, len(places) < len(back)), None, None


def _rows(x: Tensor, places: Tensor, with_zeros: bool) -> Tensor:
    if with_zeros:
        x = torch.cat([x, x.new_zeros(1, x.shape[1])])
    return x.index_select(0, places)
