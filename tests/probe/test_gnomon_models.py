"""gnomon's own models under every switch and both backends."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gnomon.model import Transformer, TransformerConfig, use_backend
from gnomon.probe import Record, compare_unobserved, observe
from model_configs import CONFIGS

B, T, S = 2, 5, 7
WITH_HEAD = [name for name, config in CONFIGS.items() if config.head.kind != "none"]


def inputs(config: TransformerConfig) -> tuple[Tensor, ...]:
    torch.manual_seed(1)
    source = torch.randint(4, config.vocab_size, (B, S))
    target = torch.randint(4, config.vocab_size, (B, T))
    if config.pad_id is not None:
        source[1, -2:] = config.pad_id
    return (source, target) if config.family == "encoder_decoder" else (source,)


def seen(config: TransformerConfig, backend: str) -> Record:
    torch.manual_seed(0)
    model = Transformer(config).eval()
    with torch.no_grad(), use_backend(backend), observe(model) as record:
        model(*inputs(config))
    return record


@pytest.mark.parametrize("name", WITH_HEAD)
def test_both_backends_show_the_same(name: str) -> None:
    config = CONFIGS[name]
    plain, fused = seen(config, "reference"), seen(config, "sdpa")
    assert [c.module for c in plain.attention] == [c.module for c in fused.attention]
    assert plain.attention and not plain.notes and not fused.notes
    assert {c.path for c in plain.attention} == {"softmax"}
    assert {c.path for c in fused.attention} == {"sdpa"}
    for one, other in zip(plain.attention, fused.attention, strict=True):
        torch.testing.assert_close(one.query, other.query, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(one.key, other.key, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(one.value, other.value, atol=1e-5, rtol=1e-4)
        assert one.scale == pytest.approx(other.scale)
        assert one.num_key_heads == other.num_key_heads
        assert one.is_cross == other.is_cross == ("cross" in one.module)
        assert (one.keep is None) == (other.keep is None)
        if one.keep is not None:
            assert torch.equal(one.keep, other.keep)
        assert (one.bias is None) == (other.bias is None)
        if one.bias is not None:
            assert one.keep is None or one.keep.any()
            hidden = torch.zeros(()) if one.keep is None else ~one.keep
            torch.testing.assert_close(
                one.bias.masked_fill(hidden.bool(), 0), other.bias.masked_fill(hidden.bool(), 0)
            )
        torch.testing.assert_close(one.weights, other.weights, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(one.output, other.output, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", WITH_HEAD)
def test_observation_changes_no_bit_in_training(name: str) -> None:
    config = CONFIGS[name]
    torch.manual_seed(0)
    model = Transformer(config).train()
    given = inputs(config)
    difference = compare_unobserved(model, lambda: model(*given))
    assert difference.absolute == 0


def test_own_dropout_is_recognised_by_its_random_zeros() -> None:
    config = CONFIGS["attention_dropout"]
    torch.manual_seed(0)
    model = Transformer(config).train()
    with observe(model) as record:
        model(*inputs(config))
    on_weights = [drop for drop in record.dropouts if drop.position == "weights"]
    assert len(on_weights) == len(record.attention)
    for drop, call in zip(on_weights, record.attention, strict=True):
        assert drop.p == call.dropout == pytest.approx(0.2, abs=0.12)
        assert drop.module == call.module
