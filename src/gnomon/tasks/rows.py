"""Rows of ids: padded into a tensor, and grouped so that a batch stays within its budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from gnomon.text import PAD_ID


def padded(rows: Sequence[Sequence[int]], pad_id: int = PAD_ID) -> Tensor:
    """Rows of ids as one int64 tensor [B, longest], padded on the right."""
    table = np.full((len(rows), max(map(len, rows))), pad_id, dtype=np.int64)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return torch.from_numpy(table)


def longest_first(places: Sequence[int], lengths: Sequence[int]) -> list[int]:
    """`places` by falling length: memory trouble shows at once, neighbours are of equal length."""
    return sorted(places, key=lambda place: (-lengths[place], place))


def batches(order: list[int], lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Cut `order` (by falling length) so that rows × longest stays within `budget` tokens."""
    start = 0
    while start < len(order):
        size = max(1, budget // lengths[order[start]])
        yield order[start : start + size]
        start += size
