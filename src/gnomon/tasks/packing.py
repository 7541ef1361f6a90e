"""Rows of one length, cut out of a stream of documents; each token is predicted once an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnomon.model import Transformer
from gnomon.text.epochs import LazySequence
from gnomon.text.hashing import hashed
from gnomon.text.permutation import KeyedPermutation

NO_LABEL = -1
_PART = 1024  # batches planned at once


class Borders(Protocol):
    """Which tokens begin and end a document; see `Vocabulary`."""

    @property
    def begin_id(self) -> int:
        """Begins a document."""
        ...

    @property
    def end_id(self) -> int:
        """Is predicted at its end."""
        ...


class Stream(Protocol):
    """Documents one after another, as rows are cut from them; see `DocumentStore`."""

    @property
    def ids(self) -> NDArray[Any]:
        """All tokens."""
        ...

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each document begins."""
        ...

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Of each document its number in the text."""
        ...

    @property
    def vocabulary(self) -> Borders:
        """What the tokens are."""
        ...

    def __len__(self) -> int:
        """How many ids there are."""
        ...

    def release(self) -> None:
        """Take what was read out of this process."""
        ...


@dataclass(frozen=True)
class RowSpec:
    """Which rows make a batch.

    Attributes:
        epoch: the epoch they are cut for.
        rows: their numbers, int64 [B].
    """

    epoch: int
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice | NDArray[np.int64]) -> RowSpec:
        return RowSpec(self.epoch, self.rows[part])


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """Rows of a stream.

    Attributes:
        inputs: int64 [B, T].
        target: int64 [B, 1 + T]: a column that is not looked at (the objective takes the first for
            the beginning of a text), then the labels, `NO_LABEL` where nothing is predicted.
        documents: int64 [B, T], numbers that tell the documents of a row apart; None where every
            row holds one alone.
        places: where in the stream each row begins.
    """

    inputs: Tensor
    target: Tensor
    documents: Tensor | None
    places: list[int]

    def to(self, device: torch.device | str) -> PackedBatch:
        """The batch on `device`."""
        documents = None if self.documents is None else self.documents.to(device)
        return replace(
            self,
            inputs=self.inputs.to(device, non_blocking=True),
            target=self.target.to(device, non_blocking=True),
            documents=documents,
        )

    def repeated(self, times: int) -> PackedBatch:
        """The rows `times` times over, whole copies one after another."""
        if times == 1:
            return self
        documents = None if self.documents is None else self.documents.repeat(times, 1)
        return replace(
            self,
            inputs=self.inputs.repeat(times, 1),
            target=self.target.repeat(times, 1),
            documents=documents,
            places=self.places * times,
        )


def read_packed(encoder: Transformer, batch: PackedBatch, ids: Tensor) -> Tensor:
    """Hidden states [B, T, D] of an encoder over rows in which no document sees another.

    Args:
        ids: int64 [B, T], in place of the batch's own.
    """
    if batch.documents is None:
        return encoder.encode(ids, torch.ones_like(ids, dtype=torch.bool))
    return encoder.encode(ids, documents=batch.documents)


class PackedRows:
    """A stream of documents as rows, cut elsewhere in every epoch.

    The stream is a ring, its first document behind its last: an epoch begins anywhere in it and
    goes round once, so that rows are cut at other places than before and every token is predicted
    once. All is a pure function of seed and epoch. What a row says does not reach over the begin of
    a document; what stands in a row behind a cut begins at position 0 like a document.

    Args:
        store: the stream.
        length: T, tokens of a row.
        seed: decides where an epoch begins and the order of its rows.
    """

    def __init__(self, store: Stream, length: int, seed: int = 0) -> None:
        self.store = store
        self.length = min(length, len(store))
        self.seed = seed
        self.num_rows = -(-len(store) // self.length)

    def epoch(self, number: int, rows_per_batch: int) -> Sequence[list[RowSpec]]:
        """The batches of an epoch in a random order, in parts that are made when asked for."""
        num_batches = -(-self.num_rows // rows_per_batch)
        order = KeyedPermutation(self.num_rows, [self.seed, number])

        def part(index: int) -> list[RowSpec]:
            self.store.release()
            found = []
            for batch in range(index * _PART, min((index + 1) * _PART, num_batches)):
                start = batch * rows_per_batch
                places = np.arange(start, min(start + rows_per_batch, self.num_rows))
                found.append(RowSpec(number, order(places)))
            return found

        return LazySequence(-(-num_batches // _PART), part)

    def in_order(self, rows_per_batch: int) -> Iterator[RowSpec]:
        """All rows from the begin of the stream on."""
        for start in range(0, self.num_rows, rows_per_batch):
            yield RowSpec(0, np.arange(start, min(start + rows_per_batch, self.num_rows)))

    def sample(self, most: int) -> RowSpec:
        """Up to `most` rows of the first epoch, from all over the text; first of all such as hold
        the begin of a document within.
        """
        starts, last = self.store.starts, self.num_rows - 1
        some = starts[_spread(len(starts), 8 * most)]
        within = np.unique(some[some % self.length != 0] // self.length)
        rows = [*within[_spread(len(within), most)], *_spread(self.num_rows, most)]
        # The last row goes round to the begin of the text: it is taken where there is no other.
        chosen = [row for row in dict.fromkeys(map(int, rows)) if row < last]
        return RowSpec(0, np.array(chosen[:most] or [last], np.int64))

    def shift(self, epoch: int) -> int:
        """Where in the stream an epoch begins."""
        return 0 if epoch == 0 else int(hashed(self.seed, epoch)[0] % np.uint64(len(self.store)))

    def document_lengths(self, spec: RowSpec) -> NDArray[np.int64]:
        """Tokens of each document, or part of one, in the rows of a batch."""
        size, T, starts = len(self.store), self.length, self.store.starts
        found = []
        for begin in ((spec.rows * T + self.shift(spec.epoch)) % size).tolist():
            end = begin + T
            # At the end of the ring a document begins in any case.
            parts = [(begin, end)] if end <= size else [(begin, size), (0, end - size)]
            for first, last in parts:
                inner = slice(*np.searchsorted(starts, [first + 1, last]))
                found.append(np.diff(np.concatenate([[first], starts[inner], [last]])))
        return np.concatenate(found)

    def tokens_at(self, batch: PackedBatch) -> NDArray[np.int64]:
        """int64 [B, T]: where in the stream each token of a batch stands."""
        return (np.array(batch.places)[:, None] + np.arange(self.length)) % len(self.store)

    def collate(self, spec: RowSpec) -> PackedBatch:
        """The rows of a batch as tensors."""
        size, T, vocabulary = len(self.store), self.length, self.store.vocabulary
        begins = spec.rows * T + self.shift(spec.epoch)
        places = (begins[:, None] + np.arange(T + 1)) % size
        ids = self.store.ids[places].astype(np.int64)
        inputs, labels = ids[:, :-1], ids[:, 1:]
        labels = np.where(labels == vocabulary.begin_id, vocabulary.end_id, labels)
        numbers = np.cumsum(inputs == vocabulary.begin_id, axis=1)
        # The last row goes round to tokens that the first one has.
        beyond = spec.rows[:, None] * T + np.arange(T) >= size
        labels[beyond], numbers[beyond] = NO_LABEL, T + 1
        several = bool((numbers != numbers[:, :1]).any())
        target = np.concatenate([np.full((len(ids), 1), NO_LABEL), labels], axis=1)
        return PackedBatch(
            torch.from_numpy(inputs.copy()),
            torch.from_numpy(target),
            torch.from_numpy(numbers) if several else None,
            (begins % size).tolist(),
        )

    def describe(self, places: Sequence[int]) -> str:
        """Which documents the rows that begin at `places` hold."""
        store = self.store
        found: set[int] = set()
        for place in places:
            first = int(np.searchsorted(store.starts, place, side="right")) - 1
            last = int(np.searchsorted(store.starts, place + self.length - 1, side="right")) - 1
            found.update(store.numbers[first : last + 1].tolist())
        numbers = sorted(found)
        return ", ".join(map(str, numbers[:20])) + (" …" if len(numbers) > 20 else "")


def _spread(count: int, most: int) -> NDArray[np.int64]:
    """At most `most` of the places 0 … count - 1, evenly."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)
