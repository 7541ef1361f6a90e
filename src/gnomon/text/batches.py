"""Which examples go together, and their ids as padded tensors.

The plan is a pure function of seed and epoch: a run that stops at batch k of epoch e continues at
batch k of epoch e by asking for the same plan, with no state but these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gnomon.text.reserved import BOS_ID, EOS_ID, PAD_ID
from gnomon.text.store import TokenStore

if TYPE_CHECKING:
    import torch  # takes a second to import, and only `collate` needs it

_STRIP_WIDTH = 2  # tokens of source length that are taken as alike
# By how many tokens lengths are raised at random. More than one for the source, so that examples
# of neighbouring lengths meet: of two that share a batch, a third to a half do so again in the
# next epoch, for 0.5 % more padding than without (which would repeat every batch).
_SOURCE_JITTER = 1.25
_TARGET_JITTER = 1.0
_FRACTIONS = 1 << 16  # of a token, in which jitter is drawn


class BatchPlan:
    """Batches of examples of like length, bounded by padded tokens.

    Args:
        source_lengths: tokens of each source as it stands in a batch [num_examples].
        target_lengths: tokens of each target as it stands in a batch [num_examples].
        tokens_per_batch: bound on rows · (longest source + longest target), padding included. An
            example that is longer by itself gets a batch of its own.
        seed: with the epoch's number, all there is to the order.
    """

    def __init__(
        self,
        source_lengths: NDArray[np.int64],
        target_lengths: NDArray[np.int64],
        tokens_per_batch: int,
        seed: int,
    ) -> None:
        assert len(source_lengths) == len(target_lengths) > 0, "one length per side and example"
        self.source_lengths = np.ascontiguousarray(source_lengths, np.int64)
        self.target_lengths = np.ascontiguousarray(target_lengths, np.int64)
        self.tokens_per_batch = tokens_per_batch
        self.seed = seed

    def epoch(self, number: int, part: int = 0) -> list[NDArray[np.int64]]:
        """Return the epoch's batches of example indices; each example is in exactly one.

        The first epoch begins with its largest batch, so that too little memory shows at once.

        Args:
            number: the epoch, from 0.
            part: which part of the epoch these examples are, from 0 (see `Epochs`).
        """
        random = np.random.default_rng([self.seed, number, part] if part else [self.seed, number])
        order = self._by_length(random)
        batches = np.split(order, self._cuts(order, random))
        batches = [batches[index] for index in random.permutation(len(batches))]
        if number == part == 0:
            largest = max(range(len(batches)), key=lambda index: self._size(batches[index]))
            batches[0], batches[largest] = batches[largest], batches[0]
        return batches

    def padding_share(self, batches: Sequence[NDArray[np.int64]]) -> float:
        """Share of the batches' tokens that is padding, 0..1."""
        processed = sum(self._size(batch)[0] for batch in batches)
        real = sum(
            int(self.source_lengths[batch].sum() + self.target_lengths[batch].sum())
            for batch in batches
        )
        return 1 - real / processed

    def _by_length(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Order examples so that neighbours are alike in both lengths.

        Strips of like source length are gone through by target length, up and down in turn, so
        that the end of a strip meets the like end of the next. Lengths are jittered anew for each
        epoch, so that neighbours change.
        """
        source = self.source_lengths * _FRACTIONS
        source += random.integers(0, int(_SOURCE_JITTER * _FRACTIONS), len(source))
        target = self.target_lengths * _FRACTIONS
        target += random.integers(0, int(_TARGET_JITTER * _FRACTIONS), len(target))
        strip = source // (_STRIP_WIDTH * _FRACTIONS)
        span = int(target.max()) + 1
        along = np.where(strip % 2, span - 1 - target, target)
        # Integers and a stable sort: the same order on every machine.
        return np.argsort(strip * span + along, kind="stable")

    def _cuts(self, order: NDArray[np.int64], random: np.random.Generator) -> list[int]:
        """Return where in `order` each batch but the first begins: as late as the budget allows."""
        source = self.source_lengths[order]
        target = self.target_lengths[order]
        # How many of the shortest examples fit: no batch can hold more.
        reach = max(1, self.tokens_per_batch // int((source + target).min()))
        # The first batch is cut short by chance, which shifts the ends of all the others.
        budget = self.tokens_per_batch * random.random()
        cuts = []
        start = 0
        while start < len(order):
            widths = np.maximum.accumulate(source[start : start + reach])
            widths = widths + np.maximum.accumulate(target[start : start + reach])
            sizes = widths * np.arange(1, len(widths) + 1)
            start += max(1, int(np.searchsorted(sizes, budget, side="right")))
            budget = self.tokens_per_batch
            cuts.append(start)
        return cuts[:-1]

    def _size(self, batch: NDArray[np.int64]) -> tuple[int, int]:
        """Padded tokens, and padded target tokens alone (the logits make these the dearer ones)."""
        target = len(batch) * int(self.target_lengths[batch].max())
        return len(batch) * int(self.source_lengths[batch].max()) + target, target


@dataclass(frozen=True, eq=False)
class Batch:
    """Padded ids of some examples.

    Attributes:
        source: int64 [B, S], tokens and end of sentence, padded on the right.
        target: int64 [B, T+1], begin of sentence, tokens and end of sentence, padded on the right.
        indices: each row's example in the store.
        line_numbers: each row's line in the raw files, from 1.
        num_target_tokens: tokens to predict, end of sentence counted, padding not.
    """

    source: torch.Tensor
    target: torch.Tensor
    indices: list[int]
    line_numbers: list[int]
    num_target_tokens: int

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on `device`."""
        return replace(
            self,
            source=self.source.to(device, non_blocking=True),
            target=self.target.to(device, non_blocking=True),
        )

    def repeated(self, times: int) -> Batch:
        """Return a batch of `times` copies of these rows, one whole copy after another."""
        if times == 1:
            return self
        return Batch(
            self.source.repeat(times, 1),
            self.target.repeat(times, 1),
            self.indices * times,
            self.line_numbers * times,
            self.num_target_tokens * times,
        )


def collate(store: TokenStore, indices: NDArray[np.int64] | Sequence[int]) -> Batch:
    """Return the examples at `indices` as one padded batch, rows in the order given."""
    import torch

    rows = np.asarray(indices, np.int64)
    source_lengths = store.source_lengths[rows]
    target_lengths = store.target_lengths[rows]
    every = np.arange(len(rows))
    source = _padded(store.sources(rows), source_lengths - 1, start=0, end=1)
    source[every, source_lengths - 1] = EOS_ID
    target = _padded(store.targets(rows), target_lengths - 2, start=1, end=1)
    target[:, 0] = BOS_ID
    target[every, target_lengths - 1] = EOS_ID
    return Batch(
        source=torch.from_numpy(source),
        target=torch.from_numpy(target),
        indices=rows.tolist(),
        line_numbers=store.line_numbers[rows].tolist(),
        num_target_tokens=int((target_lengths - 1).sum()),
    )


def _padded(
    flat: NDArray[Any], lengths: NDArray[np.int64], *, start: int, end: int
) -> NDArray[np.int64]:
    """Lay out rows that stand one after the other, with room before and behind each."""
    columns = np.arange(start + int(lengths.max()) + end)
    table = np.full((len(lengths), len(columns)), PAD_ID, np.int64)
    table[(columns >= start) & (columns < start + lengths[:, None])] = flat
    return table
