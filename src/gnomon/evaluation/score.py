"""A figure and how it was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """One measured value; two are comparable only where name and signature are equal.

    Attributes:
        name: "bleu", "chrf", "ter", "exact_match", "rouge1", "rouge2", "rougeL", "perplexity" …
        value: from 0 to 100; TER from 0 up, perplexity from 1 up.
        signature: everything the value depends on beside the texts, `key:value` joined by `|`.
        higher_is_better: which way improvement lies.
        details: what the value is made of, for a person ("71.0/47.5/34.3/24.5 BP 0.999 ref 12,103":
            precisions of 1- to 4-grams, brevity penalty and reference length of a BLEU).
        interval: 95 % bootstrap interval, where one was taken.
    """

    name: str
    value: float
    signature: str
    higher_is_better: bool = True
    details: str = ""
    interval: tuple[float, float] | None = None
