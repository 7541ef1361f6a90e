"""What a search looks for, and the formula that compares hypotheses of different length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from gnomon.errors import RecipeError

LengthPenalty = Literal["gnmt", "average", "none"]

MAX_BEAM = 1000
MAX_FACTOR = 1000.0
MAX_OFFSET = 100_000  # tokens; what every step needs is laid out for the longest output
MAX_PENALTY = 100.0
MAX_TEMPERATURE = 100.0
MAX_ALPHA = 5.0  # beyond it, penalties of long outputs leave the range where fp32 can rank them

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How to search. Every length counts all generated tokens, EOS included and BOS not.

    A hypothesis of `length` tokens scores `log_prob / penalty(length) + coverage`, where log_prob
    sums the log-probability of every one of these tokens (after the repetition penalty, if there
    is one), coverage is 0 unless `coverage_penalty` is set, and penalty(length) is

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
    # Factor of the sum over source tokens of ln min(attention it got so far, 1), which outputs
    # that leave source tokens unread lose (Wu et al. 2016, eq. 14); 0: none. Beam search only.
    coverage_penalty: float = 0.0
    # Factor on the log-probability of tokens that are in the output already (Keskar et al. 2019):
    # above 1 they become less probable, below 1 more; 1: none.
    repetition_penalty: float = 1.0
    # No sequence of this many tokens comes twice in an output; 0: no such rule.
    no_repeat_ngram: int = 0
    # Draw `nbest` outputs at random from the model's distribution instead of searching.
    sample: bool = False
    # Divides the log-probabilities before sampling: below 1 safer, above 1 wilder.
    temperature: float = 1.0
    # Sampling draws only from tokens that pass every filter, each judged on the whole tempered
    # distribution: the `top_k` most probable ones; 0: all.
    top_k: int = 0
    # … the fewest most probable ones that hold this much probability (Holtzman et al. 2020)
    top_p: float = 1.0
    # … those at least this fraction as probable as the most probable one (Nguyen et al. 2024)
    min_p: float = 0.0
    # Samples are a function of seed, place of the text in the input, and number of the sample.
    seed: int = 0

    def changed(self, changes: Mapping[str, Any]) -> SearchConfig:
        """These settings with some fields changed; None changes nothing.

        A larger `nbest` takes the beam with it, and a smaller beam takes `nbest`.

        Raises:
            RecipeError: a field is unknown, or the values do not fit together.
        """
        known = {name: value for name, value in changes.items() if value is not None}
        if unknown := sorted(known.keys() - type(self).__dataclass_fields__.keys()):
            raise RecipeError(
                "search settings are fields of SearchConfig",
                seen=", ".join(unknown),
                mend=f"fields: {', '.join(type(self).__dataclass_fields__)}",
            )
        config = replace(self, **known)
        if "nbest" in known and "beam" not in known and not config.sample:
            config = replace(config, beam=max(config.beam, config.nbest))
        if "beam" in known and "nbest" not in known:
            config = replace(config, nbest=max(1, min(config.beam, config.nbest)))
        if problems := config.problems():
            raise RecipeError("the search settings must fit together", seen="; ".join(problems))
        return config

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
        default = type(self)()

        def changed(*names: str) -> list[str]:
            return [name for name in names if getattr(self, name) != getattr(default, name)]

        found = []
        if self.length_penalty != "gnmt":
            cause = f"length_penalty = {self.length_penalty!r}"
            found += [f"decoding.{name} has no effect with {cause}" for name in changed("alpha")]
        idle = ("beam", "coverage_penalty") if self.sample else SAMPLING
        cause = f"sample = {str(self.sample).lower()}"
        found += [f"decoding.{name} has no effect with {cause}" for name in changed(*idle)]
        if self.beam == 1 and not self.sample:
            found += [
                f"decoding.{name} has no effect with beam = 1"
                for name in changed("coverage_penalty")
            ]
        return found

    def problems(self) -> list[str]:
        """Everything wrong with these values: the rule, the value seen and the mend."""
        found = []
        if self.beam < 1:
            found.append(f"beam must be at least 1, not {self.beam}; 1 is greedy search")
        if self.nbest < 1:
            found.append(f"nbest must be at least 1, not {self.nbest}")
        elif self.sample and self.nbest > MAX_BEAM:
            found.append(f"nbest must be at most {MAX_BEAM:,}, not {self.nbest}")
        elif not self.sample and self.nbest > self.beam >= 1:
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
        if self.max_length_offset > MAX_OFFSET:
            found.append(
                f"max_length_offset must be at most {MAX_OFFSET:,}, not {self.max_length_offset}"
            )
        if self.min_length < 1:
            found.append(
                f"min_length must be at least 1 (EOS counts as a token), not {self.min_length}"
            )
        return found + self._penalty_problems() + self._sampling_problems()

    def _penalty_problems(self) -> list[str]:
        found = []
        if not 0 <= self.coverage_penalty <= MAX_PENALTY:
            found.append(
                f"coverage_penalty must lie between 0 and {MAX_PENALTY:g}, not "
                f"{self.coverage_penalty}; usual values are 0 to 0.5"
            )
        if not 0 < self.repetition_penalty <= MAX_PENALTY:
            found.append(
                f"repetition_penalty must be above 0 and at most {MAX_PENALTY:g}, not "
                f"{self.repetition_penalty}; 1 changes nothing, usual values are 1 to 1.3"
            )
        if self.no_repeat_ngram < 0:
            found.append(
                f"no_repeat_ngram must be a number of tokens, not {self.no_repeat_ngram}; "
                "0 switches it off"
            )
        return found

    def _sampling_problems(self) -> list[str]:
        found = []
        if not 0 < self.temperature <= MAX_TEMPERATURE:
            found.append(
                f"temperature must be above 0 and at most {MAX_TEMPERATURE:g}, not "
                f"{self.temperature}; for the most probable output leave sample off"
            )
        if self.top_k < 0:
            found.append(f"top_k must be a number of tokens, not {self.top_k}; 0 switches it off")
        if not 0 < self.top_p <= 1:
            found.append(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if not 0 <= self.min_p <= 1:
            found.append(f"min_p must lie between 0 and 1, not {self.min_p}")
        if not 0 <= self.seed < 1 << 63:
            found.append(f"seed must lie between 0 and 2^63 - 1, not {self.seed}")
        return found
