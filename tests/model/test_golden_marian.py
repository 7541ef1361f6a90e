"""Our blocks, given Marian's weights, compute what Hugging Face's Marian computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gnomon.model import TransformerConfig
from model.golden import CLOSE, ours, randomise
from model_configs import MARIAN, changed

SIZES = {
    "vocab_size": 40,
    "d_model": 16,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "attention.num_heads": 4,
    "feedforward.size": 24,
    "pad_id": 39,
}
CONFIG: TransformerConfig = changed(TransformerConfig(), {**MARIAN, **SIZES})


@pytest.fixture(scope="module")
def theirs() -> Any:
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=40,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_position_embeddings=32,
        scale_embedding=True,
        activation_function="swish",
        pad_token_id=39,
        eos_token_id=0,
        decoder_start_token_id=39,
        forced_eos_token_id=0,
    )
    torch.manual_seed(11)
    model = MarianMTModel(config)
    sinusoids = model.model.encoder.embed_positions.weight.detach().clone()
    randomise(model)
    with torch.no_grad():
        model.final_logits_bias.copy_(torch.randn(1, 40))
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.weight.copy_(sinusoids)
    return model


def source_text() -> Tensor:
    torch.manual_seed(0)
    source = torch.randint(1, 39, (3, 9))
    source[1, 5:] = source[2, 1:] = 39
    return source


@torch.no_grad()
def test_marian_logits(theirs: Any) -> None:
    source, target = source_text(), torch.randint(1, 39, (3, 7))
    expected = theirs(source, attention_mask=(source != 39).long(), decoder_input_ids=target).logits
    torch.testing.assert_close(ours(theirs, CONFIG)(source, target), expected, **CLOSE)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("feedforward.activation", "gelu"),
        ("norm.eps", 1e-3),
        ("position.layout", "interleaved"),
        ("embedding.scale", False),
        ("pad_id", None),
    ],
)
@torch.no_grad()
def test_marian_notices_a_wrong_switch(theirs: Any, key: str, value: Any) -> None:
    source, target = source_text(), torch.randint(1, 39, (3, 7))
    expected = theirs(source, attention_mask=(source != 39).long(), decoder_input_ids=target).logits
    model = ours(theirs, changed(CONFIG, {key: value}))
    with pytest.raises(AssertionError):
        torch.testing.assert_close(model(source, target), expected, **CLOSE)
