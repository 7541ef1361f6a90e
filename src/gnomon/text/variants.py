"""In which variants a token store holds the training text: other pieces, other typing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.text.augmentation import AugmentationConfig, Augmenter
from gnomon.text.bpe_dropout import BPEDropout
from gnomon.text.ragged import Ragged
from gnomon.text.tokenizer_config import TokenizerConfig
from gnomon.text.tokenizer_pair import TokenizerPair

_AS_IT_IS = AugmentationConfig()


@dataclass(frozen=True, kw_only=True)
class Variants:
    """What decides a store's variants beside the vocabulary; part of the store's name.

    Attributes:
        bpe_dropout: probability that a merge is left out, 0..1.
        augmentation: how texts are changed before they are cut into pieces.
        num_variants: how many of each text.
        seed: decides all there is to chance.
    """

    bpe_dropout: float = 0.0
    augmentation: AugmentationConfig = _AS_IT_IS
    num_variants: int = 1
    seed: int = 0

    @classmethod
    def of(
        cls,
        tokenizer: TokenizerConfig,
        augmentation: AugmentationConfig,
        num_variants: int,
        seed: int,
    ) -> Variants:
        """What a recipe asks for; where nothing is left to chance the seed plays no part."""
        if not tokenizer.bpe_dropout and not augmentation.changes_text:
            return cls(augmentation=augmentation)
        return cls(
            bpe_dropout=tokenizer.bpe_dropout,
            augmentation=augmentation,
            num_variants=num_variants,
            seed=seed,
        )

    def identity(self) -> dict[str, Any]:
        """All that the ids depend on, for the store's name."""
        values: dict[str, Any] = {
            "bpe_dropout": self.bpe_dropout,
            "num_variants": self.num_variants,
            "seed": self.seed,
        }
        # Named only where they have an effect: stores keep the name they had before these existed.
        if self.augmentation.changes_text:
            values["shares"] = self.augmentation.shares()
        if self.marks_single_words:
            values["marks"] = ["single_words"]
        return values

    @property
    def marks_single_words(self) -> bool:
        """Whether the store says which pairs are of single words."""
        return self.augmentation.single_words != 1


class VariantEncoder:
    """Encodes pairs in every variant.

    Raises:
        ModelError: dropout with a vocabulary that is not BPE.
    """

    def __init__(self, tokenizers: TokenizerPair, variants: Variants) -> None:
        self.num_variants = variants.num_variants
        self.marks_single_words = variants.marks_single_words
        self._tokenizers = tokenizers
        self._augmenter: Augmenter | None = None
        self._dropout: tuple[BPEDropout, BPEDropout] | None = None
        # A seed for each, or equal words at equal places would be cut alike on both sides.
        seeds = np.random.SeedSequence(variants.seed).generate_state(3, np.uint64).tolist()
        if probability := variants.bpe_dropout:
            source, target = tokenizers.own()
            self._dropout = (
                BPEDropout(source, probability, seeds[0]),
                BPEDropout(target, probability, seeds[1]),
            )
        if variants.augmentation.changes_text:
            self._augmenter = Augmenter(variants.augmentation, seeds[2])

    def pairs(
        self, sources: Sequence[str], targets: Sequence[str], lines: NDArray[np.int64]
    ) -> tuple[list[Ragged], list[Ragged]]:
        """Return the ids of all sources and of all targets, once for each variant.

        Args:
            sources, targets: texts of the pairs.
            lines: each pair's line in the raw files, which with the seed decides its chances.
        """
        every = range(self.num_variants)
        if self._augmenter is None:
            return self._encode(sources, targets, lines, every)
        found: tuple[list[Ragged], list[Ragged]] = ([], [])
        for variant in every:
            changed = self._augmenter.pairs(sources, targets, lines, variant)
            for side, (rows,) in zip(found, self._encode(*changed, lines, [variant]), strict=True):
                side.append(rows)
        return found

    def _encode(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        lines: NDArray[np.int64],
        which: Sequence[int],
    ) -> tuple[list[Ragged], list[Ragged]]:
        if self._dropout is not None:
            source, target = self._dropout
            return source.variants(sources, lines, which), target.variants(targets, lines, which)
        return (
            [Ragged.of(self._tokenizers.source.encode(sources))] * len(which),
            [Ragged.of(self._tokenizers.target.encode(targets))] * len(which),
        )
