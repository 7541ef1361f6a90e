"""How well a language model predicts text: per token, character and byte."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LanguageEvaluationConfig:
    """What a validation reads of its text."""

    # tokens of the validation text that are read each time; None: all
    max_tokens: int | None = None

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        if self.max_tokens is not None and self.max_tokens < 1:
            return [f"evaluation.max_tokens must be at least 1, seen {self.max_tokens}"]
        return []


LANGUAGE_METRICS = ("nll", "perplexity", "bits_per_character", "bits_per_byte")


def language_metrics(
    nll_sum: float, num_tokens: int, *, characters: float, num_bytes: float
) -> dict[str, float]:
    """The measures of `LANGUAGE_METRICS` from summed losses in nats.

    Args:
        nll_sum: over all predicted tokens, the end of every document among them.
        num_tokens: how many these are.
        characters: of the text that they spell.
        num_bytes: the same in UTF-8. Unlike perplexity, both measures hold across vocabularies.
    """
    mean = nll_sum / num_tokens
    return {
        "nll": mean,
        "perplexity": math.exp(min(mean, 700.0)),  # beyond it a float ends
        "bits_per_character": nll_sum / math.log(2) / characters,
        "bits_per_byte": nll_sum / math.log(2) / num_bytes,
    }
