"""Rows that hold several documents: attention takes them apart, so that none sees another.

A mask of T x T for every row would cost what the documents do not: short ones in long rows leave
nearly all of it empty. Instead each document becomes a row of its own, beside others of about its
length; their attention is then plain attention, whatever the pattern or bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

SHORTEST_ROW = 16
"""In tokens: documents shorter than this are not told apart by length."""


@dataclass(frozen=True)
class Group:
    """Documents of about the same length, each a row of its own.

    Attributes:
        places: int64 `[n, L]`, of each token its place among all tokens of the packed rows; behind
            a document's end that of any other token.
        real: bool `[n, L]`, True at tokens of the document.
    """

    places: Tensor
    real: Tensor


class Documents:
    """Where the documents of packed rows begin and end.

    Args:
        numbers: int64 `[B, T]`; neighbours of one row with the same number are one document.

    Attributes:
        numbers: as given.
        positions: int64 `[B, T]`, counted from each document's begin.
        groups: all documents, by length.
    """

    def __init__(self, numbers: Tensor) -> None:
        B, T = numbers.shape
        self.numbers = numbers
        device = numbers.device
        begins = torch.ones_like(numbers, dtype=torch.bool)
        begins[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
        starts = begins.flatten().nonzero()[:, 0]
        lengths = torch.diff(starts, append=starts.new_tensor([B * T]))
        places = torch.arange(B * T, device=device)
        self.positions = (places - starts.repeat_interleave(lengths)).view(B, T)
        self.groups: list[Group] = []
        back = torch.empty_like(places)  # of each token its place in the rows of all groups
        filled = 0
        widths = [max(SHORTEST_ROW, 1 << (each - 1).bit_length()) for each in lengths.tolist()]
        width_of = torch.tensor(widths, device=device)
        for width in sorted(set(widths)):
            chosen = width_of == width
            longest = int(lengths[chosen].max())
            within = torch.arange(longest, device=device)
            real = within < lengths[chosen, None]
            rows = (starts[chosen, None] + within).clamp(max=B * T - 1)
            self.groups.append(Group(rows, real))
            own = torch.arange(rows.numel(), device=device).view_as(rows) + filled
            back[rows[real]] = own[real]
            filled += rows.numel()
        self.back = back

    @property
    def same(self) -> Tensor:
        """Bool `[B, 1, T, T]`: whether two tokens of a row are in one document."""
        return (self.numbers[:, :, None] == self.numbers[:, None, :]).unsqueeze(1)

    def apart(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attend: Callable[[Tensor, Tensor, Tensor, int], Tensor],
    ) -> Tensor:
        """Attention `[B, H, T, K]` of packed rows.

        Args:
            query: `[B, H, T, K]`.
            key: `[B, G, T, K]`.
            value: `[B, G, T, K]`.
            attend: attention of the documents of a group, given its number, as rows.
        """
        B, H, T, K = query.shape
        flat = [x.transpose(1, 2).reshape(B * T, -1, K) for x in (query, key, value)]
        found = []
        for number, group in enumerate(self.groups):
            q, k, v = (x[group.places].transpose(1, 2) for x in flat)
            found.append(attend(q, k, v, number).transpose(1, 2).reshape(-1, H, K))
        return torch.cat(found)[self.back].view(B, T, H, K).transpose(1, 2)
