"""Hugging Face models, eager and fused: what the probe sees is what the model reports itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gnomon.probe import AttentionCall, Record, observe
from probe.hf_models import KINDS, LENGTH, TARGET_LENGTH, Kind, build, inputs

pytest.importorskip("transformers")
CASES = [(kind, attention) for kind in KINDS for attention in ("eager", "sdpa")]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].name}-{case[1]}", scope="module")
def seen(request: pytest.FixtureRequest) -> tuple[Kind, str, Record, tuple[Tensor, ...]]:
    """The record of one implementation, and the attentions the eager one reports."""
    kind, attention = request.param
    given = inputs(kind)
    with torch.no_grad():
        model = build(kind.name, attention)
        with observe(model) as record:
            model(**given)
        eager = build(kind.name, "eager")
        reported = eager(**given, output_attentions=True)
    if kind.num_cross:
        mixed = [
            attention
            for layer in zip(reported.decoder_attentions, reported.cross_attentions, strict=True)
            for attention in layer
        ]
        return kind, attention, record, (*reported.encoder_attentions, *mixed)
    return kind, attention, record, reported.attentions


def test_every_call_is_seen_with_the_model_s_own_weights(seen) -> None:
    kind, _, record, reported = seen
    assert not record.notes
    assert len(record.attention) == kind.num_calls == len(reported)
    for call, weights in zip(record.attention, reported, strict=True):
        assert call.weights is not None
        torch.testing.assert_close(call.weights, weights, atol=2e-6, rtol=1e-5)


def test_path_scale_and_heads(seen) -> None:
    kind, attention, record, _ = seen
    for call in record.attention:
        assert call.path == ("softmax" if attention == "eager" else "sdpa")
        assert call.scale == pytest.approx(kind.scale)
        assert call.num_heads == 2
        assert call.num_key_heads == kind.num_key_heads
        assert call.softmax_dim == -1
        assert not call.dropout_before_softmax


def test_raw_scores_scale_and_bias_give_the_scores(seen) -> None:
    _, _, record, _ = seen
    for call in record.attention:
        assert call.raw_scores is not None and call.scale is not None and call.scores is not None
        scores = call.raw_scores * call.scale + (0 if call.bias is None else call.bias)
        keep = torch.ones_like(scores, dtype=torch.bool) if call.keep is None else call.keep
        keep = keep.expand_as(scores)
        torch.testing.assert_close(scores[keep], call.scores[keep], atol=1e-5, rtol=1e-5)
        assert call.keep is None or bool((call.scores[~keep] < -9000).all())


def test_keep_is_padding_and_look_ahead(seen) -> None:
    kind, _, record, _ = seen
    real = inputs(kind)["attention_mask"].bool()[:, None, None]
    for call in record.attention:
        keep = expected_keep(kind, call, real)
        assert torch.equal(full(call), keep.expand_as(full(call)))


def expected_keep(kind: Kind, call: AttentionCall, real: Tensor) -> Tensor:
    if kind.num_cross and not call.is_cross and "decoder" in call.module:
        return torch.ones(TARGET_LENGTH, TARGET_LENGTH, dtype=torch.bool).tril()[None, None]
    if kind.num_decoder and not kind.num_cross:
        ahead = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        if kind.name == "mistral":
            ahead = ahead.triu(-3)
        return real & ahead[None, None]
    return real


def full(call: AttentionCall) -> Tensor:
    assert call.weights is not None
    if call.keep is None:
        return torch.ones_like(call.weights, dtype=torch.bool)
    return call.keep.expand_as(call.weights)


def test_cross_attention_is_told_from_self_attention(seen) -> None:
    kind, _, record, _ = seen
    crossed = [call.is_cross for call in record.attention]
    expected = [False] * kind.num_encoder
    expected += [False, True] * kind.num_cross if kind.num_cross else [False] * kind.num_decoder
    assert crossed == expected


def test_owner_is_the_attention_module(seen) -> None:
    _, _, record, _ = seen
    for call in record.attention:
        assert "att" in call.module.lower(), call.module


def test_bias_only_where_the_architecture_has_one(seen) -> None:
    kind, _, record, _ = seen
    for call in record.attention:
        has = call.bias is not None
        assert has == (kind.has_bias and not call.is_cross)
