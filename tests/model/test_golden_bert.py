"""Our blocks, given BERT's weights, compute what Hugging Face's BERT computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gnomon.model import TransformerConfig
from model.golden import CLOSE, ours, randomise
from model_configs import BERT, changed

SIZES = {
    "vocab_size": 40,
    "d_model": 16,
    "num_encoder_layers": 2,
    "attention.num_heads": 4,
    "feedforward.size": 24,
    "position.max_length": 20,
}
CONFIG: TransformerConfig = changed(TransformerConfig(), {**BERT, **SIZES})


@pytest.fixture(scope="module")
def theirs() -> Any:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=20,
    )
    return randomise(BertForMaskedLM(config))


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    ids = torch.randint(1, 40, (3, 9))
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[1, 5:] = keep[2, 1:] = False
    return ids.masked_fill(~keep, 0), keep, torch.randint(0, 2, (3, 9))


@torch.no_grad()
def test_bert_hidden_states_and_logits(theirs: Any) -> None:
    ids, keep, segments = inputs()
    expected = theirs(
        ids, attention_mask=keep.long(), token_type_ids=segments, output_hidden_states=True
    )
    model = ours(theirs, CONFIG)
    hidden = model.encode(ids, segments=segments)
    torch.testing.assert_close(hidden[keep], expected.hidden_states[-1][keep], **CLOSE)
    torch.testing.assert_close(model.project(hidden)[keep], expected.logits[keep], **CLOSE)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("feedforward.activation", "gelu_tanh"),
        ("norm.eps", 1e-3),
        ("attention.scale", 0.4),
        ("embedding.scale", True),
        ("pad_id", None),
    ],
)
@torch.no_grad()
def test_bert_notices_a_wrong_switch(theirs: Any, key: str, value: Any) -> None:
    ids, keep, segments = inputs()
    expected = theirs(ids, attention_mask=keep.long(), token_type_ids=segments).logits
    model = ours(theirs, changed(CONFIG, {key: value}))
    logits = model(ids, segments=segments)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(logits[keep], expected[keep], **CLOSE)
