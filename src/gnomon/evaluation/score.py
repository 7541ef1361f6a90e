"""A figure and how it was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """One measured value; two are comparable only where name and signature are equal.

    Attributes:
        name: "bleu", "chrf", "exact_match" or "perplexity".
        value: BLEU, chrF and exact match run from 0 to 100, perplexity from 1 up.
        signature: everything the value depends on beside the texts, `key:value` joined by `|`.
        higher_is_better: which way improvement lies.
    """

    name: str
    value: float
    signature: str
    higher_is_better: bool = True
