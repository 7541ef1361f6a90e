import math

import pytest
import torch

from gnomon.errors import DataError
from gnomon.evaluation import perplexity


def test_uniform_model_has_the_vocabulary_size():
    V, num_tokens = 50, 7
    loss = torch.nn.functional.cross_entropy(
        torch.zeros(num_tokens, V), torch.arange(num_tokens), reduction="sum"
    )
    score = perplexity(float(loss), num_tokens)
    assert score.value == pytest.approx(V, rel=1e-6)
    assert not score.higher_is_better


def test_a_perfect_model_has_one():
    assert perplexity(0.0, 3).value == 1


def test_overflow_is_infinite_and_nan_stays():
    assert perplexity(1e6, 2).value == math.inf
    assert perplexity(math.inf, 2).value == math.inf
    assert math.isnan(perplexity(math.nan, 2).value)


def test_no_tokens_are_refused():
    with pytest.raises(DataError, match="at least one"):
        perplexity(0.0, 0)


def test_signature_says_how_it_was_counted():
    signature = perplexity(1.0, 1, tokenizer="abc123").signature
    assert "eos:yes" in signature and "pad:no" in signature and "tok:abc123" in signature
