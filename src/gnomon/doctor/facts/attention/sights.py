"""Who sees whom: of every attention call of a run, what each head gives to later keys and padding.

A call belongs to a text by its numbers of queries and keys; calls that fit no text (pooled, chunked
or windowed ones) are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from gnomon.doctor.call import StreamName
from gnomon.doctor.run import Run
from gnomon.probe import AttentionCall

SEEN = 1e-6  # a weight below it is hidden: what exp(-1e4) leaves is exactly 0
What = Literal["future", "padding"]


@dataclass(frozen=True, eq=False)
class Sight:
    """One attention call.

    Attributes:
        query, key: the texts that queries and keys stand for.
        weights: fp32 `[B, H, T, S]`, NaN as it was.
        real: bool `[B, T]`, queries at real tokens.
        keep: bool `[B, S]`, keys at real tokens.
    """

    call: AttentionCall
    query: StreamName
    key: StreamName
    weights: Tensor
    real: Tensor
    keep: Tensor

    @property
    def module(self) -> str:
        """Where it was made."""
        return self.call.module

    @property
    def is_self(self) -> bool:
        """Queries and keys of one text."""
        return self.query == self.key

    @cached_property
    def _later(self) -> Tensor:
        T, S = self.weights.shape[-2:]
        return torch.ones(T, S, dtype=torch.bool, device=self.weights.device).triu(1)

    @cached_property
    def future(self) -> Tensor:
        """`[H]`: the most that a real query gives to later keys, in all, by magnitude."""
        given = (self.weights.nan_to_num(0.0).abs() * self._later).sum(-1)
        return self.of_real(given)

    @cached_property
    def padding(self) -> Tensor:
        """`[H]`: the most that a real query gives to padding, in all, by magnitude."""
        given = (self.weights.nan_to_num(0.0).abs() * ~self.keep[:, None, None, :]).sum(-1)
        return self.of_real(given)

    def mass(self, what: What) -> Tensor:
        """`[H]` of either."""
        return self.future if what == "future" else self.padding

    def of_real(self, given: Tensor) -> Tensor:
        """`[H]`: the most of `[B, H, T]` that a real query with a real key to see has."""
        # A query with nothing but padding to see is told by empty-row.
        some = self.keep.any(1)[:, None] & self.real
        return given.masked_fill(~some[:, None, :], 0.0).amax((0, 2))

    @property
    def has_padding(self) -> bool:
        """Whether there is a padded key that a real query could see."""
        return bool((~self.keep & self.keep.any(1, keepdim=True)).any())


def sights(run: Run) -> list[Sight]:
    """The calls of an observed run whose weights are known and fit its texts."""
    call = run.call
    lengths = {name: call.length(name) for name in call.streams}
    keeps = {name: call.keep(name) for name in call.streams}
    rows = call.num_rows()
    found = []
    for each in run.record.attention:
        # A mask may come after softmax: what counts is what the values were multiplied with.
        weights = each.weights if each.applied_weights is None else each.applied_weights
        if weights is None or weights.dim() != 4 or weights.size(0) != rows:
            continue
        query = _text(weights.size(-2), lengths, call.read)
        key = _text(weights.size(-1), lengths, "source" if each.is_cross else query)
        if query is None or key is None or (query == "source" and key == "target"):
            continue
        device = weights.device
        found.append(
            Sight(each, query, key, weights.float(), keeps[query].to(device), keeps[key].to(device))
        )
    return found


def _text(
    length: int, lengths: dict[StreamName, int], preferred: StreamName | None
) -> StreamName | None:
    fits = [name for name, each in lengths.items() if each == length]
    return preferred if preferred in fits else next(iter(fits), None)


def places(seen: Sequence[Sight], what: What) -> list[str]:
    """The modules that see it, and where only some of a module's heads do, these heads."""
    found = []
    for each in seen:
        bad = each.mass(what) > SEEN
        if bool(bad.all()):
            found.append(each.module)
        else:
            found += [f"head {head} of {each.module}" for head in bad.nonzero().flatten().tolist()]
    return list(dict.fromkeys(found))


def most(seen: Sequence[Sight], what: What) -> float:
    """The largest mass that any head gives away."""
    return max((float(each.mass(what).max()) for each in seen), default=0.0)
