"""Perplexity from summed token losses."""

from __future__ import annotations

import math

from gnomon.errors import DataError
from gnomon.evaluation.score import Score


def perplexity(nll_sum: float, num_tokens: int, *, tokenizer: str | None = None) -> Score:
    """exp(nll_sum / num_tokens): how many equally likely tokens the model hesitates between.

    Args:
        nll_sum: negative natural log-likelihood (without label smoothing), summed over the target
            tokens with EOS and without BOS and padding. NaN stays NaN.
        num_tokens: how many tokens that were.
        tokenizer: fingerprint of the tokenizer that made them; perplexities of different
            tokenizers are not comparable.

    Returns:
        The score; infinite where the mean is beyond the range of a float (about 709 nats).

    Raises:
        DataError: there are no tokens.
    """
    if num_tokens < 1:
        raise DataError("Perplexity needs at least one target token.", seen=num_tokens)
    mean = nll_sum / num_tokens
    try:
        value = math.exp(mean)
    except OverflowError:
        value = math.inf
    parts = ["unit:token", "eos:yes", "bos:no", "pad:no", "smooth:none"]
    if tokenizer is not None:
        parts.append(f"tok:{tokenizer}")
    return Score(name="perplexity", value=value, signature="|".join(parts), higher_is_better=False)
