"""Combinations that cannot work are refused by name, all at once."""

from __future__ import annotations

from typing import Any

import pytest

from gnomon.errors import ModelError
from gnomon.model import Transformer, TransformerConfig
from model_configs import BASE, CONFIGS, changed

IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"vocab_size": 0}, "vocab_size"),
    ({"num_decoder_layers": 0}, "num_decoder_layers"),
    ({"dropout": 1.0}, "dropout"),
    ({"attention.dilation": 0}, "attention.dilation"),
    ({"attention.dropout": -0.1}, "attention.dropout"),
    ({"embedding.dropout": 1.5}, "embedding.dropout"),
    ({"pad_id": 29}, "pad_id"),
    ({"d_model": 18}, "head_size"),
    ({"attention.num_key_value_heads": 3}, "num_key_value_heads"),
    ({"d_model": 15, "attention.head_size": 4}, "Sinusoidal"),
    ({"position.kind": "rope", "attention.head_size": 5}, "even"),
    ({"position.kind": "rope", "position.rope.factor": 0.5}, "factor"),
    ({"position.kind": "relative", "position.relative.num_buckets": 6}, "num_buckets"),
    ({"target_vocab_size": 31}, "model.tie = all"),
    ({"family": "decoder", "target_vocab_size": 31}, "target_vocab_size"),
    ({"family": "encoder", "tie": "decoder"}, "needs a decoder"),
    ({"embedding.sparse_gradient": True}, "untied"),
    ({"head.kind": "none"}, "head.kind"),
]


@pytest.mark.parametrize(("changes", "named"), IMPOSSIBLE, ids=lambda value: str(value)[:60])
def test_each_problem_is_named(changes: dict[str, Any], named: str) -> None:
    config = changed(BASE, changes)
    found = config.problems()
    assert len(found) == 1, found
    assert named in found[0]
    with pytest.raises(ModelError):
        Transformer(config)


def test_all_problems_come_at_once() -> None:
    config = changed(BASE, {"dropout": 2.0, "pad_id": -1, "embedding.sparse_gradient": True})
    assert len(config.problems()) == 3


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_what_is_tested_has_none(config: TransformerConfig) -> None:
    assert config.problems() == []


def test_the_default_is_the_2017_base_model() -> None:
    config = TransformerConfig()
    assert (config.d_model, config.feedforward.size, config.attention.num_heads) == (512, 2048, 8)
    assert (config.num_encoder_layers, config.num_decoder_layers, config.dropout) == (6, 6, 0.1)
    assert (config.norm.placement, config.position.kind, config.tie) == (
        "post",
        "sinusoidal",
        "all",
    )
    assert config.problems() == []
