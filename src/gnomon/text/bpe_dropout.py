"""BPE-dropout: other segmentations of the same text, by leaving out merges at random.

Source: Provilkov et al. 2020, "BPE-Dropout: Simple and Effective Subword Regularization"
(arXiv:1910.13267), algorithm 1: at each step every merge that could be made is dropped with
probability p, and the best of those left is made; a word is done when none is left.

`tokenizers` has this too, but draws from a generator that nobody can seed. Here every draw is a
hash of seed, word, step and place, so that the same recipe gives the same bytes on every machine,
whatever the size of the chunks the text comes in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gnomon.text.hashing import happens, hashed
from gnomon.text.ragged import Ragged, gather
from gnomon.text.tokenizer import Tokenizer

# Segmentations drawn for a word; each of its occurrences takes one of them by hash. Nine in ten
# words of a chunk are repetitions, so that this is many times faster than to draw anew for each.
_NUM_DRAWS = 64
# Longer words (Thai, or no text at all) are cut between pieces: a step costs time by length.
_MAX_ATOMS = 64
_NEVER = np.iinfo(np.int64).max  # rank of a pair that no merge joins


class BPEDropout:
    """Segments texts with merges left out.

    Args:
        tokenizer: its vocabulary and merges.
        dropout: probability that a merge is left out, 0..1; 0 gives the tokenizer's own
            segmentation, 1 single characters.
        seed: decides, with each text's number, all there is to chance.

    Raises:
        ModelError: the vocabulary is not BPE.
    """

    def __init__(self, tokenizer: Tokenizer, dropout: float, seed: int) -> None:
        assert 0 <= dropout <= 1, "a probability"
        self._tokenizer = tokenizer
        self._dropout = dropout
        self._seed = seed % (1 << 64)
        merges = np.array(tokenizer.merges(), np.int64).reshape(-1, 3)
        self._atoms = _atoms(merges, tokenizer.vocab_size)
        pairs = merges[:, 0] * tokenizer.vocab_size + merges[:, 1]
        self._pairs, self._ranks = np.unique(pairs, return_index=True)  # the first of equals
        self._merged = merges[:, 2]

    def variants(
        self, texts: Sequence[str], numbers: NDArray[np.int64], which: Sequence[int]
    ) -> list[Ragged]:
        """Return some of the segmentations of the texts, each the ids of every text.

        Args:
            texts: what to segment.
            numbers: a number for each text, such as its line: another number, other chances.
            which: numbers of segmentations, of which there are endlessly many.

        Raises:
            DataError: a text holds a lone surrogate, which no encoding can carry.
        """
        encoded, words = self._tokenizer.encode_words(texts)
        if not encoded.ids.size:
            return [encoded] * len(which)
        text_of_id = np.repeat(np.arange(len(texts)), encoded.lengths)
        starts = np.flatnonzero(self._begins_word(encoded.ids, text_of_id, words))
        text_of_word = text_of_id[starts]
        place = np.arange(len(starts)) - np.searchsorted(text_of_word, text_of_word)
        chance = hashed(self._seed, numbers[text_of_word], place)
        word, vocabulary = self._distinct(encoded.ids, starts)
        several = vocabulary.lengths[word] > 1  # a single character has but one segmentation
        keys = np.stack(
            [
                word * _NUM_DRAWS
                + np.where(several, hashed(chance, variant) % np.uint64(_NUM_DRAWS), 0)
                for variant in which
            ]
        ).astype(np.int64)
        needed, chosen = np.unique(keys, return_inverse=True)
        drawn = self._draw(vocabulary, needed // _NUM_DRAWS, needed % _NUM_DRAWS)
        offsets = drawn.offsets
        found = []
        for row in chosen.reshape(keys.shape):
            lengths = np.bincount(text_of_word, drawn.lengths[row], len(texts)).astype(np.int64)
            found.append(Ragged(gather(drawn.ids, offsets, row), lengths))
        return found

    def _begins_word(
        self, ids: NDArray[np.int64], text: NDArray[np.int64], word: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Where a word begins; words beyond `_MAX_ATOMS` are cut between two of their pieces.

        Such a cut changes nothing without dropout, since no merge was made across it.
        """
        begins = _changes(text) | _changes(word)
        sizes = self._atoms.lengths[ids]
        before = np.cumsum(sizes) - sizes
        in_word = before - before[begins][np.cumsum(begins) - 1]
        return begins | _changes(in_word // _MAX_ATOMS)

    def _distinct(
        self, ids: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Ragged]:
        """Number the distinct words; return each word's number, and each number's characters."""
        flat = ids.astype("<u4").tobytes()
        bounds = (4 * np.append(starts, len(ids))).tolist()
        numbers: dict[bytes, int] = {}
        which = np.fromiter(
            (numbers.setdefault(flat[start:end], len(numbers)) for start, end in pairwise(bounds)),
            np.int64,
            len(starts),
        )
        pieces = np.frombuffer(b"".join(numbers), "<u4").astype(np.int64)
        num_pieces = np.fromiter((len(word) // 4 for word in numbers), np.int64, len(numbers))
        characters = gather(self._atoms.ids, self._atoms.offsets, pieces)
        word_of_piece = np.repeat(np.arange(len(numbers)), num_pieces)
        lengths = np.bincount(word_of_piece, self._atoms.lengths[pieces]).astype(np.int64)
        return which, Ragged(characters, lengths)

    def _draw(
        self, vocabulary: Ragged, words: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> Ragged:
        """Draw number `draws[i]` of the segmentations of word `words[i]`."""
        offsets = vocabulary.offsets
        place = np.arange(len(vocabulary.ids)) - np.repeat(offsets[:-1], vocabulary.lengths)
        identity = np.add.reduceat(hashed(vocabulary.ids, place), offsets[:-1])[words]
        chance = hashed(self._seed, identity, draws)
        sizes = vocabulary.lengths[words]
        lengths = np.empty_like(sizes)
        done: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for size in np.unique(sizes):
            rows = np.flatnonzero(sizes == size)
            ids = vocabulary.ids[offsets[words[rows]][:, None] + np.arange(size)]
            for index, merged in self._merge(ids, chance[rows]):
                lengths[rows[index]] = merged.shape[1]
                done.append((rows[index], merged))
        result = Ragged(np.empty(lengths.sum(), np.int64), lengths)
        begins = result.offsets
        for index, merged in done:
            result.ids[begins[index][:, None] + np.arange(merged.shape[1])] = merged
        return result

    def _merge(
        self, ids: NDArray[np.int64], chance: NDArray[np.uint64]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Merge words of one length [R, L] until none goes on; return them as they get done.

        Every word that goes on makes one merge a step, so all keep one length.
        """
        index = np.arange(len(ids))
        ranks = self._rank(ids[:, :-1], ids[:, 1:])
        done = []
        for step in range(ids.shape[1]):
            width = ids.shape[1]
            if width == 1 or not len(ids):
                break
            draw = hashed(chance[:, None], step * _MAX_ATOMS * 2 + np.arange(width - 1))
            candidates = np.where(happens(draw, self._dropout), _NEVER, ranks)
            best = candidates.argmin(axis=1)  # the leftmost of equals, as the tokenizer has it
            rank = candidates[np.arange(len(ids)), best]
            goes_on = rank != _NEVER
            if not goes_on.all():
                done.append((index[~goes_on], ids[~goes_on]))
                index, ids, ranks, chance, best, rank = (
                    part[goes_on] for part in (index, ids, ranks, chance, best, rank)
                )
            ids, ranks = self._join(ids, ranks, best, self._merged[rank])
        done.append((index, ids))
        return done

    def _join(
        self,
        ids: NDArray[np.int64],
        ranks: NDArray[np.int64],
        at: NDArray[np.int64],
        merged: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Put `merged` in place of the two ids at `at` and after, in each row."""
        columns = np.arange(ids.shape[1] - 1)
        every = np.arange(len(ids))
        ids = np.take_along_axis(ids, columns + (columns > at[:, None]), axis=1)
        ids[every, at] = merged
        ranks = np.take_along_axis(ranks, columns[:-1] + (columns[:-1] >= at[:, None]), axis=1)
        left = at > 0
        row, column = every[left], at[left] - 1
        ranks[row, column] = self._rank(ids[row, column], ids[row, column + 1])
        right = at < ranks.shape[1]
        row, column = every[right], at[right]
        ranks[row, column] = self._rank(ids[row, column], ids[row, column + 1])
        return ids, ranks

    def _rank(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rank of the merge that joins two ids, the first learned the lowest."""
        if not len(self._pairs):
            return np.full(left.shape, _NEVER)
        pair = left * self._tokenizer.vocab_size + right
        place = np.minimum(np.searchsorted(self._pairs, pair), len(self._pairs) - 1)
        return np.where(self._pairs[place] == pair, self._ranks[place], _NEVER)


def _atoms(merges: NDArray[np.int64], vocab_size: int) -> Ragged:
    """The characters that each id was merged from; ids that no merge makes stand for themselves."""
    atoms: list[list[int]] = [[index] for index in range(vocab_size)]
    made = set()
    for left, right, merged in merges.tolist():
        if merged not in made:
            made.add(merged)
            atoms[merged] = atoms[left] + atoms[right]
    return Ragged.of(atoms)


def _changes(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True at the first value and at each that differs from the one before."""
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes
