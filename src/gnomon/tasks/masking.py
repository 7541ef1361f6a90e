"""Which tokens of a row are hidden from an encoder that learns to guess them, and behind what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import ModelError
from gnomon.tasks.packing import NO_LABEL
from gnomon.text.hashing import happens, hashed
from gnomon.text.scripts import joins_words
from gnomon.text.vocabulary import Vocabulary

_BLANKS = " ▁Ġ"  # how vocabularies write a blank before a word
_INSIDE = "##"  # how WordPiece writes that none is before


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """What an encoder has to guess (Devlin et al., 2019, §3.1)."""

    # share of the words (or tokens) that are to be guessed
    share: float = 0.15
    # of these: share that the mask stands for, and share that another token stands for; the rest
    # stays as it is, so that no token can be taken for granted
    hidden: float = 0.8
    replaced: float = 0.1
    # all tokens of a word are guessed together; else each token by itself
    whole_words: bool = True

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        found = []
        if not 0 < self.share < 1:
            found.append(f"masking.share must be between 0 and 1, seen {self.share}")
        if min(self.hidden, self.replaced) < 0 or self.hidden + self.replaced > 1:
            found.append(
                "masking.hidden and masking.replaced must be shares of one whole, seen "
                f"{self.hidden} and {self.replaced}"
            )
        return found


class Masker:
    """Hides tokens; which ones is a pure function of seed, epoch and place in the text.

    Args:
        vocabulary: of the tokens.
        config: see `MaskingConfig`.
        seed: of all that is drawn.

    Raises:
        ModelError: the vocabulary has no token that stands for a hidden one.
    """

    def __init__(self, vocabulary: Vocabulary, config: MaskingConfig, seed: int) -> None:
        mask_id = vocabulary.framing.mask_id
        if mask_id is None:
            raise ModelError(
                "a masked language model needs a token that stands for a hidden one",
                seen="a vocabulary without",
                mend="let gnomon learn the vocabulary, or start from a model that was trained so",
            )
        self.mask_id = mask_id
        self.config = config
        self.seed = seed
        special = {vocabulary.begin_id, vocabulary.end_id, vocabulary.pad_id, mask_id}
        special |= set() if vocabulary.unk_id is None else {vocabulary.unk_id}
        pieces = vocabulary.pieces(range(vocabulary.vocab_size))
        self.is_special = np.zeros(len(pieces), bool)
        self.is_special[sorted(special)] = True
        is_byte = np.array([_is_byte(piece) for piece in pieces])
        # Random tokens are drawn from those that text may hold.
        self.others = np.flatnonzero(~self.is_special & ~is_byte)
        self._inside = np.array([piece.startswith(_INSIDE) for piece in pieces])
        has_inside = bool(self._inside.any())
        self._goes_on = np.array(
            [not has_inside and bool(piece) and _in_word(piece[0]) for piece in pieces]
        )
        self._is_word = np.array([bool(piece) and _in_word(piece[-1]) for piece in pieces])
        self._goes_on[is_byte] = self._is_word[is_byte] = True

    def words(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Int64 [B, T]: of each token where in its row its word begins."""
        starts = np.ones(ids.shape, bool)
        after = self._is_word[ids[:, :-1]] & self._goes_on[ids[:, 1:]]
        starts[:, 1:] = ~(after | self._inside[ids[:, 1:]])
        starts |= self.is_special[ids]
        places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        return np.maximum.accumulate(np.where(starts, places, 0), axis=1)

    def __call__(
        self, ids: NDArray[np.int64], places: NDArray[np.int64], epoch: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What the encoder reads, and what it has to guess, `NO_LABEL` where nothing is.

        Args:
            ids: int64 [B, T].
            places: int64 [B, T], where in the whole text each token stands.
            epoch: draws anew.
        """
        config = self.config
        drawn_at = places
        if config.whole_words:
            drawn_at = np.take_along_axis(places, self.words(ids), axis=1)
        chosen = happens(hashed(self.seed, epoch, drawn_at), config.share)
        chosen &= ~self.is_special[ids]
        fate = hashed(self.seed, epoch, places, 1)
        hidden = chosen & happens(fate, config.hidden)
        replaced = chosen & ~hidden & happens(fate, config.hidden + config.replaced)
        number = (hashed(self.seed, epoch, places, 2) % np.uint64(len(self.others))).astype(int)
        read = np.where(hidden, self.mask_id, np.where(replaced, self.others[number], ids))
        return read, np.where(chosen, ids, NO_LABEL)


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


def _in_word(character: str) -> bool:
    """Whether a word goes on with this character, unless a blank is before it."""
    return character not in _BLANKS and character.isalnum() and joins_words(character)
