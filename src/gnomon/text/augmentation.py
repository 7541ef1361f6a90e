"""Training text as people type it: capitals, typos, blanks, missing full stops, words alone."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.text.hashing import happens, hashed
from gnomon.text.perturb import (
    lower_case,
    title_case,
    upper_case,
    with_extra_blanks,
    with_typos,
    without_final_mark,
)

Change = Callable[[str, str, random.Random], tuple[str, str]]
_SHARES = ("upper", "lower", "title", "no_final_punctuation", "typos", "extra_blanks")


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig:
    """How the training text is changed, so that the model holds where people type otherwise.

    Shares are of the pairs, 0..1, drawn anew for each of the `data.variants`. Placeholders, markup,
    numbers and addresses are never changed, nor is validation or test text.
    """

    upper: float = 0.0  # in capitals, the target too: a shout is translated by a shout
    lower: float = 0.0  # source without capitals; the target stays, so that they are put back
    title: float = 0.0  # source with a capital in front of each word; the target stays
    no_final_punctuation: float = 0.0  # where both sides end in one, both lose it
    typos: float = 0.0  # source with a tenth of its words mistyped, at least one
    extra_blanks: float = 0.0  # source with blanks doubled or tripled, and one at either end
    # Times that an epoch shows a pair of single words, and each pair of `terms`.
    single_words: float = 1.0
    terms: str | None = None  # file of pairs that are added to the training text, such as a TSV

    paths: ClassVar[tuple[str, ...]] = ("terms",)

    @property
    def changes_text(self) -> bool:
        """Whether any pair reads otherwise than in the files."""
        return any(self.shares().values())

    def shares(self) -> dict[str, float]:
        """How much of the text each change is made to."""
        return {name: getattr(self, name) for name in _SHARES}

    def problems(self) -> list[str]:
        """Return every rule broken across fields; empty if all is well."""
        found = [
            f"augmentation.{name} must be a share from 0 to 1, is {share}: set it to 0.1"
            for name, share in self.shares().items()
            if not 0 <= share <= 1
        ]
        if not found and (case := self.upper + self.lower + self.title) > 1 + 1e-9:
            found.append(
                "augmentation.upper, lower and title must be 1 or less together, as a text has one "
                f"case, are {case:g}"
            )
        if not (math.isfinite(self.single_words) and self.single_words > 0):
            found.append(
                "augmentation.single_words must be a number of times above 0, is "
                f"{self.single_words}: set it to 1"
            )
        return found


class Augmenter:
    """Changes pairs; what becomes of one depends on seed, line and variant alone."""

    def __init__(self, config: AugmentationConfig, seed: int) -> None:
        self._seed = seed % (1 << 64)
        # Case last but blanks, so that a typo in a line of capitals is a capital. The place in
        # this list decides the chances.
        self._changes: list[tuple[float, Change]] = [
            (config.no_final_punctuation, _without_final_marks),
            (config.typos, lambda source, target, rng: (with_typos(source, rng), target)),
            (config.upper + config.lower + config.title, _CaseChange(config)),
            (
                config.extra_blanks,
                lambda source, target, rng: (with_extra_blanks(source, rng), target),
            ),
        ]

    def pairs(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        lines: NDArray[np.int64],
        variant: int,
    ) -> tuple[list[str], list[str]]:
        """Return both sides as one variant has them.

        Args:
            sources, targets: texts of the pairs.
            lines: each pair's line in the raw files.
            variant: which.
        """
        changed_sources, changed_targets = list(sources), list(targets)
        for number, (share, change) in enumerate(self._changes):
            chance = hashed(self._seed, number, variant, lines)
            for row in np.flatnonzero(happens(chance, share)).tolist():
                changed_sources[row], changed_targets[row] = change(
                    changed_sources[row], changed_targets[row], random.Random(int(chance[row]))
                )
        return changed_sources, changed_targets


class _CaseChange:
    def __init__(self, config: AugmentationConfig) -> None:
        self._upper, self._lower = config.upper, config.lower
        self._sum = config.upper + config.lower + config.title

    def __call__(self, source: str, target: str, rng: random.Random) -> tuple[str, str]:
        drawn = rng.random() * self._sum
        if drawn < self._upper:
            loud = upper_case(source)
            # A script without case cannot shout, so its translation must not.
            return (source, target) if loud == source else (loud, upper_case(target))
        return (lower_case if drawn < self._upper + self._lower else title_case)(source), target


def _without_final_marks(source: str, target: str, _: random.Random) -> tuple[str, str]:
    bare = without_final_mark(source), without_final_mark(target)
    return (source, target) if bare[0] == source or bare[1] == target else bare
