"""Our blocks, given T5's weights, compute what Hugging Face's T5 computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gnomon.model import TransformerConfig
from model.golden import CLOSE, ours, randomise
from model_configs import T5, changed

SIZES = {
    "vocab_size": 40,
    "d_model": 16,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "attention.num_heads": 4,
    "attention.head_size": 6,
    "feedforward.size": 24,
    "position.relative.num_buckets": 8,
    "position.relative.max_distance": 12,
}
ORIGINAL: TransformerConfig = changed(TransformerConfig(), {**T5, **SIZES})
# T5 1.1: gated, and an output table of its own, unscaled.
NEWER = {
    "feedforward.gated": True,
    "feedforward.activation": "gelu_tanh",
    "tie": "inputs",
    "head.scale": False,
}


def build(newer: bool) -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=40,
        d_model=16,
        d_kv=6,
        d_ff=24,
        num_layers=2,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        feed_forward_proj="gated-gelu" if newer else "relu",
        tie_word_embeddings=not newer,
    )
    return randomise(T5ForConditionalGeneration(config))


def texts() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    source = torch.randint(1, 40, (3, 17))
    source[1, 5:] = source[2, 1:] = 0
    return source, torch.randint(1, 40, (3, 15))


def expected(theirs: Any) -> Tensor:
    source, target = texts()
    logits: Tensor = theirs(
        source, attention_mask=(source != 0).long(), decoder_input_ids=target
    ).logits
    return logits


@pytest.mark.parametrize("newer", [False, True], ids=["t5", "t5_1.1"])
@torch.no_grad()
def test_t5_logits(newer: bool) -> None:
    theirs = build(newer)
    model = ours(theirs, changed(ORIGINAL, NEWER) if newer else ORIGINAL)
    torch.testing.assert_close(model(*texts()), expected(theirs), **CLOSE)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("feedforward.activation", "gelu"),
        ("norm.eps", 1e-3),
        ("attention.scale", None),
        ("embedding.scale", True),
        ("head.scale", False),
        ("position.relative.max_distance", 13),
        ("pad_id", None),
    ],
)
@torch.no_grad()
def test_t5_notices_a_wrong_switch(key: str, value: Any) -> None:
    theirs = build(newer=False)
    model = ours(theirs, changed(ORIGINAL, {key: value}))
    with pytest.raises(AssertionError):
        torch.testing.assert_close(model(*texts()), expected(theirs), **CLOSE)
