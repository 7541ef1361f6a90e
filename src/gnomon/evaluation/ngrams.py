"""What counting alone knows of text: n-grams with Kneser-Ney smoothing, beside any language model.

Interpolated modified Kneser-Ney (Chen and Goodman 1999, equations 23 to 26): every count above 0
gives up one of three discounts; what is given up goes to the shorter history, whose "counts" are of
how many tokens an n-gram was seen to follow; the shortest history of all gives every token the
same. All tables are sorted arrays: an n-gram is the number of its history and its last token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import DataError

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class _Table:
    """All n-grams of one length that were seen.

    Attributes:
        keys: sorted, number of the history × size of the vocabulary + last token.
        taken: of each, its share of its history's probability: discounted count ÷ all counts.
        left: by number of the history, the share that its shorter history distributes.
    """

    keys: Ids
    taken: Numbers
    left: Numbers


class NGrams:
    """A language model over token ids.

    Args:
        documents: ids of each text, without what begins or ends it.
        vocab_size: ids there are.
        end_id: ends each document, and stands before it.
        order: tokens of the longest n-grams: a token is predicted from order - 1 before it.

    Raises:
        DataError: there is nothing to count.
    """

    def __init__(
        self, documents: Sequence[Sequence[int]], vocab_size: int, end_id: int, order: int
    ) -> None:
        if not documents or order < 1:
            raise DataError(
                "n-grams are counted in documents, and have a length",
                seen=f"{len(documents)} documents, order {order}",
            )
        self.vocab_size, self.end_id, self.order = vocab_size, end_id, order
        stream = self._stream(documents)
        keys = [np.zeros(1, np.int64)]  # by length, from 0: the empty history
        seen: list[Ids] = []
        at = np.zeros(len(stream) + 1, np.int64)  # number of the n-gram that begins at a place
        for length in range(1, order + 1):
            pairs = at[: len(stream) - length + 1] * vocab_size + stream[length - 1 :]
            found, first, number, count = np.unique(
                pairs, return_index=True, return_inverse=True, return_counts=True
            )
            if seen:  # what is not the longest counts by how many tokens it was seen to follow
                seen[-1] = np.bincount(at[first + 1], minlength=len(keys[-1]))
            keys.append(found)
            seen.append(count)
            at = number
        self._tables = [
            _table(own, counts, own // vocab_size, len(shorter))
            for own, counts, shorter in zip(keys[1:], seen, keys, strict=False)
        ]

    def nll(self, documents: Sequence[Sequence[int]]) -> tuple[float, int]:
        """Summed −log p in nats, over how many tokens; each document's end is one of them."""
        stream = self._stream(documents)
        # A document's begin is given; the one that would follow the last is not asked for.
        total = -np.log(self._probabilities(stream)[1:]).sum()
        return float(total), len(stream) - 1

    def _stream(self, documents: Sequence[Sequence[int]]) -> Ids:
        rows = [np.array([self.end_id], np.int64)]
        for each in documents:
            rows += [np.asarray(each, np.int64), rows[0]]
        return np.concatenate(rows)

    def _probabilities(self, stream: Ids) -> Numbers:
        """Of every token of a stream given what stands before it there."""
        found = np.full(len(stream), 1.0 / self.vocab_size)
        known = np.zeros(len(stream) + 1, np.int64)  # number of the history beginning here, or -1
        for length, table in enumerate(self._tables, start=1):
            history = known[: len(stream) - length + 1]
            pairs = history * self.vocab_size + stream[length - 1 :]
            place = np.searchsorted(table.keys, pairs).clip(max=len(table.keys) - 1)
            is_seen = (table.keys[place] == pairs) & (history >= 0)
            of_history = history.clip(min=0)
            shorter = found[length - 1 :]
            longer = np.where(is_seen, table.taken[place], 0.0) + table.left[of_history] * shorter
            found[length - 1 :] = np.where(history >= 0, longer, shorter)
            known = np.where(is_seen, place, -1)
        return found


def _table(keys: Ids, seen: Ids, histories: Ids, size: int) -> _Table:
    """Shares of n-grams that were seen so often, of histories numbered below `size`."""
    discounts = _discounts(seen)
    given = discounts[np.minimum(seen, 3)]
    totals = np.bincount(histories, seen, size)
    left = np.bincount(histories, given, size) / np.maximum(totals, 1)
    # A history that was only seen at the end of the text says nothing: all is left.
    left[totals == 0] = 1.0
    taken = (seen - given) / np.maximum(totals, 1)[histories]
    return _Table(keys, taken, left)


def _discounts(seen: Ids) -> Numbers:
    """What counts of 0, 1, 2 and above give up (equation 26), from how many counts are 1 to 4."""
    once, twice, thrice, four = (float((seen == count).sum()) for count in (1, 2, 3, 4))
    if not (once and twice and thrice and four):
        return np.array([0.0, 0.5, 0.5, 0.5])  # too little text for the formula
    share = once / (once + 2 * twice)
    found = [1 - 2 * share * twice / once, 2 - 3 * share * thrice / twice]
    found.append(3 - 4 * share * four / thrice)
    return np.array([0.0, *np.clip(found, 0.0, [1.0, 2.0, 3.0])])
