"""Which segmentations of the training text a token store holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.text.bpe_dropout import BPEDropout
from gnomon.text.ragged import Ragged
from gnomon.text.tokenizer_config import TokenizerConfig
from gnomon.text.tokenizer_pair import TokenizerPair


@dataclass(frozen=True, kw_only=True)
class Segmentation:
    """What decides a store's segmentations beside the vocabulary; part of the store's name.

    Attributes:
        bpe_dropout: probability that a merge is left out, 0..1.
        num_variants: how many segmentations of each text.
        seed: decides all there is to chance.
    """

    bpe_dropout: float = 0.0
    num_variants: int = 1
    seed: int = 0

    @classmethod
    def of(cls, config: TokenizerConfig, seed: int) -> Segmentation:
        """What a recipe asks for; without dropout the seed plays no part."""
        if not config.bpe_dropout:
            return cls()
        return cls(
            bpe_dropout=config.bpe_dropout, num_variants=config.bpe_dropout_variants, seed=seed
        )


class Segmenter:
    """Encodes pairs in every variant.

    Raises:
        ModelError: dropout with a vocabulary that is not BPE.
    """

    def __init__(self, tokenizers: TokenizerPair, segmentation: Segmentation) -> None:
        self.num_variants = segmentation.num_variants
        self._tokenizers = tokenizers
        self._dropout: tuple[BPEDropout, BPEDropout] | None = None
        if probability := segmentation.bpe_dropout:
            # A seed for each side, or equal words at equal places would be cut alike.
            source, target = np.random.SeedSequence(segmentation.seed).generate_state(2, np.uint64)
            self._dropout = (
                BPEDropout(tokenizers.source, probability, int(source)),
                BPEDropout(tokenizers.target, probability, int(target)),
            )

    def pairs(
        self, sources: Sequence[str], targets: Sequence[str], lines: NDArray[np.int64]
    ) -> tuple[list[Ragged], list[Ragged]]:
        """Return the ids of all sources and of all targets, once for each variant.

        Args:
            sources, targets: texts of the pairs.
            lines: each pair's line in the raw files, which with the seed decides its chances.
        """
        if self._dropout is None:
            source = Ragged.of(self._tokenizers.source.encode(sources))
            target = Ragged.of(self._tokenizers.target.encode(targets))
            return [source], [target]
        source_dropout, target_dropout = self._dropout
        return (
            source_dropout.variants(sources, lines, self.num_variants),
            target_dropout.variants(targets, lines, self.num_variants),
        )
