"""Small models that cover every switch of `TransformerConfig`, for property tests.

`CONFIGS` holds one model per value of every switch, and every preset; other rooms' tests may use
it too. `shrunk`
makes a small model of any configuration with all its switches kept.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from gnomon.model import TransformerConfig
from gnomon.recipes import load_recipe, preset_names

VOCAB_SIZE = 29


def changed(config: Any, changes: dict[str, Any]) -> Any:
    """`config` with dotted keys set: `{"norm.kind": "rms"}`."""
    for key, value in changes.items():
        first, _, rest = key.partition(".")
        inner = changed(getattr(config, first), {rest: value}) if rest else value
        config = replace(config, **{first: inner})
    return config


BASE = changed(
    TransformerConfig(),
    {
        "vocab_size": VOCAB_SIZE,
        "d_model": 16,
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "attention.num_heads": 4,
        "feedforward.size": 24,
    },
)

# Every switch with every value that is not the default's, each with what it needs to matter.
SWITCHES: dict[str, dict[str, Any]] = {
    "target_vocab_size": {"target_vocab_size": 31, "tie": "decoder"},
    "no_padding": {"pad_id": None},
    "three_encoder_layers": {"num_encoder_layers": 3},
    "one_decoder_layer": {"num_decoder_layers": 1},
    "grouped_heads": {"attention.num_key_value_heads": 2},
    "one_key_value_head": {"attention.num_key_value_heads": 1},
    "head_size": {"attention.head_size": 6},
    "attention_scale": {"attention.scale": 1.0},
    "attention_dropout": {"attention.dropout": 0.2},
    "sliding_window": {"attention.pattern": "sliding_window", "attention.window": 2},
    "dilated": {
        "attention.pattern": "dilated",
        "attention.window": 2,
        "attention.dilation": 3,
    },
    "block_sparse": {"attention.pattern": "block_sparse", "attention.block_size": 2},
    "two_global_tokens": {
        "attention.pattern": "block_sparse",
        "attention.block_size": 1,
        "attention.num_global_tokens": 2,
    },
    "bias_query_key": {"attention.bias_query_key": True},
    "bias_value": {"attention.bias_value": True},
    "bias_out": {"attention.bias_out": True},
    "all_biases": {
        "attention.bias_query_key": True,
        "attention.bias_value": True,
        "attention.bias_out": True,
    },
    "gelu": {"feedforward.activation": "gelu"},
    "gelu_tanh": {"feedforward.activation": "gelu_tanh"},
    "swish": {"feedforward.activation": "swish"},
    "gated": {"feedforward.gated": True, "feedforward.activation": "swish"},
    "feedforward_without_bias": {"feedforward.bias": False},
    "feedforward_dropout": {"feedforward.dropout": 0.2},
    "rms": {"norm.kind": "rms"},
    "pre": {"norm.placement": "pre"},
    "pre_rms": {"norm.placement": "pre", "norm.kind": "rms"},
    "sandwich": {"norm.placement": "sandwich"},
    "sandwich_rms": {"norm.placement": "sandwich", "norm.kind": "rms"},
    "deepnorm": {"norm.placement": "deepnorm"},
    "eps": {"norm.eps": 1e-2},
    "norm_without_bias": {"norm.bias": False},
    "halves": {"position.layout": "halves"},
    "learned": {"position.kind": "learned", "position.max_length": 24},
    "learned_offset": {
        "position.kind": "learned",
        "position.max_length": 24,
        "position.offset": 2,
    },
    "alibi": {"position.kind": "alibi"},
    "relative": {"position.kind": "relative"},
    "relative_small": {
        "position.kind": "relative",
        "position.relative.num_buckets": 8,
        "position.relative.max_distance": 6,
    },
    "no_position": {"position.kind": "none"},
    "rope": {"position.kind": "rope"},
    "rope_theta": {"position.kind": "rope", "position.rope.theta": 100.0},
    "rope_linear": {
        "position.kind": "rope",
        "position.rope.scaling": "linear",
        "position.rope.factor": 4.0,
    },
    "rope_ntk": {
        "position.kind": "rope",
        "position.rope.scaling": "ntk",
        "position.rope.factor": 4.0,
    },
    "block_sparse_ntk": {
        "attention.pattern": "block_sparse",
        "attention.block_size": 2,
        "position.kind": "rope",
        "position.rope.scaling": "ntk",
        "position.rope.factor": 4.0,
    },
    "rope_dynamic_ntk": {
        "position.kind": "rope",
        "position.rope.scaling": "dynamic_ntk",
        "position.rope.factor": 2.0,
        "position.rope.original_length": 4,
    },
    "rope_yarn": {
        "position.kind": "rope",
        "position.rope.scaling": "yarn",
        "position.rope.factor": 4.0,
        "position.rope.original_length": 8,
    },
    "rope_yarn_betas": {
        "position.kind": "rope",
        "position.rope.scaling": "yarn",
        "position.rope.factor": 4.0,
        "position.rope.original_length": 8,
        "position.rope.beta_fast": 4.0,
        "position.rope.beta_slow": 0.5,
        "position.rope.attention_factor": 1.3,
    },
    "rope_llama3": {
        "position.kind": "rope",
        "position.rope.scaling": "llama3",
        "position.rope.factor": 4.0,
        "position.rope.original_length": 24,
        "position.rope.beta_fast": 4.0,
        "position.rope.beta_slow": 0.5,
    },
    "query_key_norm": {"attention.query_key_norm": True, "position.kind": "rope"},
    "embedding_unscaled": {"embedding.scale": False},
    "embedding_norm": {"embedding.norm": True},
    "segments": {"embedding.num_segments": 2},
    "embedding_dropout": {"embedding.dropout": 0.3},
    "sparse_gradient": {"embedding.sparse_gradient": True, "tie": "none"},
    "head_bias": {"head.bias": True},
    "head_scale": {"head.scale": True},
    "head_transform": {"head.kind": "transform"},
    "dropout_off": {"dropout": 0.0},
    "layer_drop": {"layer_drop": 0.9},
    "tie_none": {"tie": "none"},
    "tie_decoder": {"tie": "decoder"},
    "tie_inputs": {"tie": "inputs"},
}

# Whole models of the field, switches combined.
BERT = {
    "family": "encoder",
    "attention.bias_query_key": True,
    "attention.bias_value": True,
    "attention.bias_out": True,
    "feedforward.activation": "gelu",
    "norm.eps": 1e-12,
    "position.kind": "learned",
    "embedding.scale": False,
    "embedding.norm": True,
    "embedding.num_segments": 2,
    "head.kind": "transform",
    "head.bias": True,
}
GPT2 = {
    "family": "decoder",
    "attention.bias_query_key": True,
    "attention.bias_value": True,
    "attention.bias_out": True,
    "feedforward.activation": "gelu_tanh",
    "norm.placement": "pre",
    "position.kind": "learned",
    "embedding.scale": False,
}
LLAMA = {
    "family": "decoder",
    "attention.num_key_value_heads": 2,
    "feedforward.activation": "swish",
    "feedforward.gated": True,
    "feedforward.bias": False,
    "norm.kind": "rms",
    "norm.placement": "pre",
    "position.kind": "rope",
    "embedding.scale": False,
    "tie": "none",
}
T5 = {
    "attention.head_size": 6,
    "attention.scale": 1.0,
    "feedforward.bias": False,
    "norm.kind": "rms",
    "norm.placement": "pre",
    "norm.eps": 1e-6,
    "position.kind": "relative",
    "embedding.scale": False,
    "head.scale": True,
}
MARIAN = {
    "attention.bias_query_key": True,
    "attention.bias_value": True,
    "attention.bias_out": True,
    "feedforward.activation": "swish",
    "position.layout": "halves",
    "head.bias": True,
}
FIELD = {"bert": BERT, "gpt2": GPT2, "llama": LLAMA, "t5": T5, "marian": MARIAN}

# Switches whose meaning differs between the families are tried in each of them.
IN_EVERY_FAMILY = (
    "grouped_heads",
    "sliding_window",
    "dilated",
    "block_sparse",
    "block_sparse_ntk",
    "deepnorm",
    "sandwich_rms",
    "learned",
    "alibi",
    "relative",
    "rope_dynamic_ntk",
    "rope_yarn",
    "segments",
)


def shrunk(config: TransformerConfig) -> TransformerConfig:
    """A small model with the switches of `config`: heads, groups and ties keep their kind."""
    grouped = config.attention.key_value_heads() != config.attention.num_heads
    return changed(
        config,
        {
            "vocab_size": VOCAB_SIZE,
            "target_vocab_size": None if config.target_vocab_size is None else VOCAB_SIZE + 2,
            "d_model": 16,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "attention.num_heads": 4,
            "attention.num_key_value_heads": 2 if grouped else None,
            "attention.head_size": None if config.attention.head_size is None else 6,
            "feedforward.size": 24,
        },
    )


CONFIGS: dict[str, TransformerConfig] = {
    "base": BASE,
    **{name: changed(BASE, changes) for name, changes in {**SWITCHES, **FIELD}.items()},
    **{
        f"{family}_{name}": changed(BASE, {"family": family, **SWITCHES.get(name, {})})
        for family in ("encoder", "decoder")
        for name in ("base", *IN_EVERY_FAMILY)
    },
    **{f"preset_{name}": shrunk(load_recipe(name).model) for name in preset_names()},
    "encoder_headless": changed(BASE, {"family": "encoder", "head.kind": "none"}),
    "encoder_pooler": changed(BASE, {"family": "encoder", "pooler": True}),
}


def keys(config: Any, prefix: str = "") -> dict[str, Any]:
    """Every leaf of a configuration tree by its dotted key."""
    found: dict[str, Any] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            found |= keys(value, f"{prefix}{field.name}.")
        else:
            found[f"{prefix}{field.name}"] = value
    return found
