"""Our blocks, given GPT-2's weights, compute what Hugging Face's GPT-2 computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gnomon.model import Transformer, TransformerConfig
from model.golden import CLOSE, ours, randomise
from model_configs import GPT2, changed

SIZES = {
    "vocab_size": 40,
    "d_model": 16,
    "num_decoder_layers": 2,
    "attention.num_heads": 4,
    "feedforward.size": 64,
    "position.max_length": 20,
}
CONFIG: TransformerConfig = changed(TransformerConfig(), {**GPT2, **SIZES})


@pytest.fixture(scope="module")
def theirs() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=40, n_positions=20, n_embd=16, n_layer=2, n_head=4)
    return randomise(GPT2LMHeadModel(config))


def left_padded() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    ids = torch.randint(1, 40, (3, 9))
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[1, :4] = keep[2, :8] = False
    return ids.masked_fill(~keep, 0), keep


@torch.no_grad()
def test_gpt2_logits_padded_on_the_left(theirs: Any) -> None:
    ids, keep = left_padded()
    positions = (keep.long().cumsum(-1) - 1).clamp(min=0)
    expected = theirs(ids, attention_mask=keep.long(), position_ids=positions).logits
    model = ours(theirs, CONFIG)
    torch.testing.assert_close(model(ids, keep=keep)[keep], expected[keep], **CLOSE)


@torch.no_grad()
def test_gpt2_generates_the_same_tokens(theirs: Any) -> None:
    ids, keep = left_padded()
    expected = theirs.generate(
        ids, attention_mask=keep.long(), max_new_tokens=8, do_sample=False, pad_token_id=0,
        eos_token_id=None,
    )  # fmt: skip
    model = ours(theirs, CONFIG)
    cache, step, step_keep = model.new_cache(), ids, keep
    for _ in range(8):
        hidden = model.decode(step, keep=step_keep, cache=cache)
        step, step_keep = model.project(hidden[:, -1:]).argmax(-1), None
        ids = torch.cat((ids, step), dim=1)
    assert ids.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("feedforward.activation", "gelu"),
        ("norm.eps", 1e-3),
        ("attention.scale", 1.0),
        ("embedding.scale", True),
        ("position.kind", "none"),
    ],
)
@torch.no_grad()
def test_gpt2_notices_a_wrong_switch(theirs: Any, key: str, value: Any) -> None:
    ids, _ = left_padded()
    model = ours(theirs, CONFIG)
    wrong = Transformer(changed(CONFIG, {key: value}))
    wrong.load_state_dict(model.state_dict(), strict=key != "position.kind")
    with pytest.raises(AssertionError):
        torch.testing.assert_close(wrong.eval()(ids[:1]), theirs(ids[:1]).logits, **CLOSE)
