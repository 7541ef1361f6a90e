"""One output of a search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One generated sequence and what it is worth.

    Attributes:
        tokens: the generated ids, without BOS; the last one is EOS unless `truncated`.
        score: log_prob / penalty(len(tokens)), what the search ranks by (see `SearchConfig`).
        log_prob: natural logarithm of the sequence's probability, EOS included.
        truncated: the length limit came before EOS.
    """

    tokens: list[int]
    score: float
    log_prob: float
    truncated: bool
