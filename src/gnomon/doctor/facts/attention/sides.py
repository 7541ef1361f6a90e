"""Which text the queries and the keys of an attention call are of."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.doctor.call import Call, StreamName
from gnomon.probe import AttentionCall, Record


@dataclass(frozen=True)
class Sides:
    """The texts of one attention call; None where it cannot be told.

    Attributes:
        real_queries, real_keys: bool `[B, T]` and `[B, S]`, True at tokens that are no padding;
            all True where the text is not known.
    """

    queries: StreamName | None
    keys: StreamName | None
    real_queries: Tensor
    real_keys: Tensor


def sides(record: Record, call: Call, attention: AttentionCall) -> Sides:
    """Say of an attention call made in `call` which texts it attends from and to.

    By its kind (self or cross), its lengths, and whether its module stands beside the
    cross-attention.
    """
    weights = attention.weights
    assert weights is not None
    rows, _, queries, keys = weights.shape
    of_queries, of_keys = _names(record, call, attention)

    def real(name: StreamName | None, length: int) -> Tensor:
        if name is not None and call.length(name) == length and call.num_rows() == rows:
            return call.keep(name).to(weights.device)
        return torch.ones(rows, length, dtype=torch.bool, device=weights.device)

    return Sides(of_queries, of_keys, real(of_queries, queries), real(of_keys, keys))


def _names(
    record: Record, call: Call, attention: AttentionCall
) -> tuple[StreamName | None, StreamName | None]:
    if "target" not in call.streams:
        return "source", "source"
    if attention.is_cross:
        return "target", "source"
    weights = attention.weights
    assert weights is not None
    lengths = {name: call.length(name) for name in call.streams}
    fits = [name for name, length in lengths.items() if length == weights.size(-2)]
    if len(fits) == 1:
        return fits[0], fits[0]
    beside = [each.module for each in record.attention if each.is_cross]
    root = common([each.split(".") for each in beside])
    if not root:
        return None, None
    own = attention.module.split(".")
    name: StreamName = "target" if own[: len(root)] == root else "source"
    if len(beside) == 1:  # one cross-attention: its own name is no root of others
        name = "target" if own[0] == root[0] else "source"
    return name, name


def common(paths: list[list[str]]) -> list[str]:
    """What all of them begin with."""
    shared = []
    for pieces in zip(*paths, strict=False):
        if len(set(pieces)) > 1:
            break
        shared.append(pieces[0])
    return shared
