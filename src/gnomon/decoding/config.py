"""What a search looks for, and the formula that compares hypotheses of different length."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

LengthPenalty = Literal["gnmt", "average", "none"]

MAX_BEAM = 1000
MAX_FACTOR = 1000.0
MAX_ALPHA = 5.0  # beyond it, penalties of long outputs leave the range where fp32 can rank them


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How to search. Every length counts all generated tokens, EOS included and BOS not.

    A hypothesis of `length` tokens scores `log_prob / penalty(length)`, where log_prob sums
    the log-probability of every one of these tokens, and penalty(length) is

    - "gnmt": ((5 + length) / 6) ** alpha (Wu et al. 2016, eq. 14, without coverage);
      alpha 0 ranks by log_prob alone, alpha > 0 favours long outputs, alpha < 0 short ones;
    - "average": length;
    - "none": 1.
    """

    # Hypotheses kept per sentence at every step; 1 is greedy search.
    beam: int = 5
    length_penalty: LengthPenalty = "gnmt"
    # Exponent of the "gnmt" penalty; the other penalties do not use it.
    alpha: float = 0.6
    # The longest output, in tokens: ceil(factor * source length) + offset.
    max_length_factor: float = 2.0
    max_length_offset: int = 20
    # The shortest output, in tokens; 1 (EOS alone) allows an empty output.
    min_length: int = 1
    # Hypotheses returned per sentence, best first.
    nbest: int = 1

    def penalty(self, length: int) -> float:
        """The positive divisor of a log-probability over `length` >= 1 tokens."""
        if self.length_penalty == "gnmt":
            return float(((5.0 + length) / 6.0) ** self.alpha)
        return float(length) if self.length_penalty == "average" else 1.0

    def max_lengths(self, source_lengths: Iterable[int]) -> list[int]:
        """The longest output allowed for each source length, both in tokens with EOS."""
        factor, offset = self.max_length_factor, self.max_length_offset
        return [max(1, math.ceil(factor * length) + offset) for length in source_lengths]

    def unused(self) -> list[str]:
        """Fields set away from their default that the others leave without effect."""
        if self.length_penalty != "gnmt" and self.alpha != type(self)().alpha:
            return [f"decoding.alpha has no effect with length_penalty = {self.length_penalty!r}"]
        return []

    def problems(self) -> list[str]:
        """Everything wrong with these values: the rule, the value seen and the mend."""
        found = []
        if self.beam < 1:
            found.append(f"beam must be at least 1, not {self.beam}; 1 is greedy search")
        if self.nbest < 1:
            found.append(f"nbest must be at least 1, not {self.nbest}")
        elif self.nbest > self.beam:
            found.append(
                f"nbest ({self.nbest}) cannot exceed beam ({self.beam}), which is all the search "
                f"keeps; set beam to {self.nbest} or more"
            )
        if self.length_penalty not in ("gnmt", "average", "none"):
            found.append(
                f"length_penalty must be 'gnmt', 'average' or 'none', not {self.length_penalty!r}"
            )
        if not -MAX_ALPHA <= self.alpha <= MAX_ALPHA:  # also catches NaN
            found.append(
                f"alpha must lie between -{MAX_ALPHA:g} and {MAX_ALPHA:g}, not {self.alpha}; "
                "usual values are 0 to 1"
            )
        if self.beam > MAX_BEAM:
            found.append(f"beam must be at most {MAX_BEAM:,}, not {self.beam}; usual are 1 to 10")
        if not 0 <= self.max_length_factor <= MAX_FACTOR:
            found.append(
                f"max_length_factor must lie between 0 and {MAX_FACTOR:g}, "
                f"not {self.max_length_factor}"
            )
        elif self.max_length_factor == 0 and self.max_length_offset < 1:
            found.append(
                "max_length_factor 0 leaves max_length_offset as the limit, which must then be "
                f"at least 1, not {self.max_length_offset}"
            )
        if self.min_length < 1:
            found.append(
                f"min_length must be at least 1 (EOS counts as a token), not {self.min_length}"
            )
        return found
