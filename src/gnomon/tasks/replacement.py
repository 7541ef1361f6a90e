"""Tokens of a text replaced by plausible ones, which a masked language model draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnomon.model import Transformer
from gnomon.tasks.masking import Masker, MaskingConfig
from gnomon.tasks.packing import NO_LABEL, PackedBatch, read_packed
from gnomon.text.hashing import hashed
from gnomon.text.vocabulary import Vocabulary

_DRAW = 3  # tells these hashes from the masker's


@dataclass(frozen=True, kw_only=True)
class ReplacementConfig:
    """What a detector has to find (Clark et al., 2020: ELECTRA)."""

    paths: ClassVar[tuple[str, ...]] = ("generator",)

    # model folder or run of the masked language model that draws what stands instead; `--from`
    # sets it
    generator: str | None = None
    # share of the tokens that are drawn anew
    share: float = 0.15
    # all tokens of a word are drawn anew together; else each token by itself
    whole_words: bool = False
    # logits are divided by it: above 1 replacements are easier to find, below 1 harder
    temperature: float = 1.0

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        found = []
        if not 0 < self.share < 1:
            found.append(f"replacement.share must be between 0 and 1, seen {self.share}")
        if not 0 < self.temperature < math.inf:
            found.append(
                f"replacement.temperature must be a number above 0, seen {self.temperature}"
            )
        return found


class Replacer:
    """Draws tokens anew; which and what is a pure function of seed, epoch and place in the text.

    A drawn token may be the one that stood there: it is then no replacement.

    Args:
        generator: an encoder with a head over the vocabulary; it is not trained.
        vocabulary: of the tokens.
        config: see `ReplacementConfig`.
        seed: of all that is drawn.

    Raises:
        ModelError: the vocabulary has no token that stands for a hidden one.
    """

    def __init__(
        self, generator: Transformer, vocabulary: Vocabulary, config: ReplacementConfig, seed: int
    ) -> None:
        self.generator = generator.eval().requires_grad_(False)
        masking = MaskingConfig(
            share=config.share, hidden=1.0, replaced=0.0, whole_words=config.whole_words
        )
        self._masker = Masker(vocabulary, masking, seed)
        self._temperature = config.temperature
        self._seed = seed
        special = np.flatnonzero(self._masker.is_special)
        self._special = torch.from_numpy(special).to(next(generator.parameters()).device)

    @torch.no_grad()
    def __call__(self, batch: PackedBatch, places: NDArray[np.int64], epoch: int) -> Tensor:
        """int64 [B, T]: the batch's ids, some of them drawn anew.

        Args:
            batch: rows on the CPU.
            places: int64 [B, T], where in the whole text each token stands.
            epoch: draws anew.
        """
        ids = batch.inputs.numpy()
        hidden, labels = self._masker(ids, places, epoch)
        keep = torch.from_numpy(labels != NO_LABEL)
        if not keep.any():
            return batch.inputs
        device = self._special.device
        states = read_packed(self.generator, batch.to(device), torch.from_numpy(hidden).to(device))
        logits = self.generator.project(states[keep.to(device)]).float() / self._temperature
        logits[:, self._special] = -math.inf
        edges = logits.double().softmax(-1).cumsum(-1)
        # A whole number below 2^53 is exact, and its quotient below 1.
        number = hashed(self._seed, epoch, places, _DRAW)[keep.numpy()] >> np.uint64(11)
        draws = torch.from_numpy(number.astype(np.float64) / 2**53).to(device)
        drawn = torch.searchsorted(edges, (draws * edges[:, -1])[:, None], right=True)[:, 0]
        read = batch.inputs.clone()
        read[keep] = drawn.to(read)
        return read
