"""Our blocks, given Llama's weights, compute what Hugging Face's Llama computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gnomon.model import TransformerConfig
from model.golden import CLOSE, ours, randomise
from model_configs import LLAMA, changed

SIZES = {
    "vocab_size": 40,
    "d_model": 16,
    "num_decoder_layers": 2,
    "attention.num_heads": 4,
    "attention.num_key_value_heads": 2,
    "feedforward.size": 24,
    "norm.eps": 1e-6,
}
CONFIG: TransformerConfig = changed(TransformerConfig(), {**LLAMA, **SIZES})
LENGTH = 13

# Hugging Face's rope_parameters and ours; original_length 8, so that the text is past it.
SCALINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({"rope_type": "default"}, {}),
    "linear": ({"rope_type": "linear", "factor": 3.0}, {"scaling": "linear", "factor": 3.0}),
    "dynamic_ntk": (
        {"rope_type": "dynamic", "factor": 2.0},
        {"scaling": "dynamic_ntk", "factor": 2.0},
    ),
    "yarn": (
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
        {"scaling": "yarn", "factor": 4.0},
    ),
    "yarn_betas": (
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 8,
            "beta_fast": 2.0,
            "beta_slow": 0.25,
            "attention_factor": 1.4,
        },
        {
            "scaling": "yarn",
            "factor": 4.0,
            "beta_fast": 2.0,
            "beta_slow": 0.25,
            "attention_factor": 1.4,
        },
    ),
}


def build(rope: dict[str, Any]) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8,
        rope_parameters={"rope_theta": 500.0, **rope},
    )
    return randomise(LlamaForCausalLM(config))


def changes_of(rope: dict[str, Any]) -> dict[str, Any]:
    rope = {"theta": 500.0, "original_length": 8, **rope}
    return {f"position.rope.{key}": value for key, value in rope.items()}


def text() -> Tensor:
    torch.manual_seed(0)
    return torch.randint(1, 40, (2, LENGTH))


@pytest.mark.parametrize("name", SCALINGS)
@torch.no_grad()
def test_llama_logits_with_every_scaling(name: str) -> None:
    their_rope, our_rope = SCALINGS[name]
    theirs = build(their_rope)
    model = ours(theirs, changed(CONFIG, changes_of(our_rope)))
    torch.testing.assert_close(model(text()), theirs(text()).logits, **CLOSE)


@torch.no_grad()
def test_llama_logits_padded_on_the_left() -> None:
    theirs = build({"rope_type": "default"})
    ids, keep = text(), torch.ones((2, LENGTH), dtype=torch.bool)
    keep[1, :6] = False
    positions = (keep.long().cumsum(-1) - 1).clamp(min=0)
    expected = theirs(ids, attention_mask=keep.long(), position_ids=positions).logits
    logits = ours(theirs, changed(CONFIG, changes_of({})))(ids, keep=keep)
    torch.testing.assert_close(logits[keep], expected[keep], **CLOSE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"position.rope.theta": 501.0},
        {"position.rope.scaling": "linear", "position.rope.factor": 1.01},
        {"feedforward.activation": "gelu"},
        {"norm.eps": 1e-3},
        {"attention.scale": 0.4},
        {"position.kind": "none"},
    ],
    ids=str,
)
@torch.no_grad()
def test_llama_notices_a_wrong_switch(wrong: dict[str, Any]) -> None:
    theirs = build({"rope_type": "default"})
    model = ours(theirs, changed(CONFIG, {**changes_of({}), **wrong}))
    with pytest.raises(AssertionError):
        torch.testing.assert_close(model(text()), theirs(text()).logits, **CLOSE)


@torch.no_grad()
def test_llama_notices_swapped_heads() -> None:
    """Which query heads share a key head is part of the model."""
    theirs = build({"rope_type": "default"})
    model = ours(theirs, changed(CONFIG, changes_of({})))
    weight = model.decoder.layers[0].attention.query_key_value.weight
    weight[:16] = weight[:16].view(4, 4, 16)[[0, 2, 1, 3]].reshape(16, 16)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(model(text()), theirs(text()).logits, **CLOSE)
