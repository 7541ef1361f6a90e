"""Llama, Mistral, Qwen2 and 3, Phi-3: one architecture, few differences (Touvron et al., 2023)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gnomon.interop.architecture import ACTIVATIONS, Architecture
from gnomon.interop.keys import Keys
from gnomon.interop.label_heads import of_decoder
from gnomon.interop.parts import Parts, shared_table
from gnomon.interop.rope import read_rope, write_rope
from gnomon.model import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    NormConfig,
    PositionConfig,
    TransformerConfig,
)

_BACK = {"swish": "silu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}


def read_common(
    keys: Keys, *, biases: Mapping[str, bool], window: int | None, head_size: int | None = None
) -> TransformerConfig:
    """What all have in common.

    Args:
        biases: bias switches of attention and feed-forward.
        window: tokens that a query sees, itself included; None: all.
        head_size: where it is not said; None: all heads together are as wide as the model.
    """
    width, num_heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    head_size = keys.get("head_dim", head_size) or width // num_heads
    length = keys.size("max_position_embeddings")
    pad_id = keys.get("pad_token_id", None)
    if isinstance(pad_id, int) and pad_id < 0:  # the first Llamas say so that they have none
        pad_id = None
    return TransformerConfig(
        family="decoder",
        vocab_size=keys.size("vocab_size"),
        pad_id=pad_id,
        d_model=width,
        num_decoder_layers=keys.size("num_hidden_layers"),
        attention=AttentionConfig(
            num_heads=num_heads,
            num_key_value_heads=keys.get("num_key_value_heads", None) or num_heads,
            head_size=head_size,
            dropout=keys.number("attention_dropout", 0.0),
            pattern="full" if window is None else "sliding_window",
            window=AttentionConfig.window if window is None else window,
            num_global_tokens=0,
            bias_query_key=biases["query_key_value"],
            bias_value=biases["query_key_value"],
            bias_out=biases["out"],
        ),
        feedforward=FeedForwardConfig(
            size=keys.size("intermediate_size"),
            activation=keys.choice("hidden_act", ACTIVATIONS, "silu"),
            gated=True,
            bias=biases["feedforward"],
        ),
        norm=NormConfig(kind="rms", placement="pre", eps=keys.number("rms_norm_eps", 1e-6)),
        position=PositionConfig(kind="rope", max_length=length, rope=read_rope(keys, length)),
        embedding=EmbeddingConfig(scale=False),
        dropout=0.0,
        tie="all" if keys.flag("tie_word_embeddings", False) else "none",
    )


def read_llama(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Llama's configuration."""
    keys.silent("pretraining_tp")  # how a product was cut over devices
    attention = keys.flag("attention_bias", False)
    biases = {
        "query_key_value": attention,
        "out": attention,
        "feedforward": keys.flag("mlp_bias", False),
    }
    return read_common(keys, biases=biases, window=None)


def read_mistral(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Mistral's configuration: attention within a window."""
    keys.only("layer_types", None)
    biases = {"query_key_value": False, "out": False, "feedforward": False}
    return read_common(keys, biases=biases, window=keys.get("sliding_window", 4096))


def read_qwen2(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Qwen2's configuration: biases on query, key and value; a window in all layers or none."""
    keys.only("use_mrope", False)
    biases = {"query_key_value": True, "out": False, "feedforward": False}
    return read_common(keys, biases=biases, window=_window(keys))


def _window(keys: Keys) -> int | None:
    """The window of all layers; None: of none."""
    keys.silent("sliding_window")  # of no use where use_sliding_window is off
    window = keys.get("sliding_window", 4096) if keys.flag("use_sliding_window", False) else None
    first = keys.get("max_window_layers", 28)
    layers = keys.size("num_hidden_layers")
    if window is not None and first >= layers:
        window = None
    if window is not None and first > 0:
        raise keys.refused(
            "max_window_layers", first, "a window can be in all layers (0) or in none"
        )
    kind = "full_attention" if window is None else "sliding_attention"
    keys.only("layer_types", None, [kind] * layers)
    return None if window is None else int(window)


def read_qwen3(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Qwen3's: Qwen2's with norms of queries and keys instead of biases, and heads of any size."""
    bias = keys.flag("attention_bias", False)
    biases = {"query_key_value": bias, "out": bias, "feedforward": False}
    config = read_common(keys, biases=biases, window=_window(keys), head_size=128)
    return replace(config, attention=replace(config.attention, query_key_norm=True))


def read_phi3(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Phi-3's: Llama with its matrices joined; a window, or none. Its longrope is refused."""
    keys.silent("original_max_position_embeddings", "embd_pdrop")  # of longrope; of training
    keys.only("partial_rotary_factor", 1.0)
    biases = {"query_key_value": False, "out": False, "feedforward": False}
    config = read_common(keys, biases=biases, window=keys.get("sliding_window", None))
    return replace(config, dropout=keys.number("resid_pdrop", 0.0))


def write_common(config: TransformerConfig) -> dict[str, Any]:
    """The keys that all have in common."""
    attention = config.attention
    return {
        "vocab_size": config.vocab_size,
        "pad_token_id": config.pad_id,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.num_decoder_layers,
        "num_attention_heads": attention.num_heads,
        "num_key_value_heads": attention.key_value_heads(),
        "attention_dropout": attention.dropout,
        "intermediate_size": config.feedforward.size,
        "hidden_act": _BACK[config.feedforward.activation],
        "rms_norm_eps": config.norm.eps,
        "max_position_embeddings": config.position.max_length,
        "tie_word_embeddings": config.tie != "none",
        **write_rope(config.position.rope),
    }


def write_llama(config: TransformerConfig) -> dict[str, Any]:
    """The keys of Llama's config.json."""
    return {
        **write_common(config),
        "head_dim": config.attention.width(config.d_model),
        "attention_bias": config.attention.bias_value,
        "mlp_bias": config.feedforward.bias,
    }


def write_mistral(config: TransformerConfig) -> dict[str, Any]:
    """The keys of Mistral's config.json."""
    attention = config.attention
    return {
        **write_common(config),
        "head_dim": attention.width(config.d_model),
        "sliding_window": attention.window if attention.pattern == "sliding_window" else None,
    }


def write_qwen2(config: TransformerConfig) -> dict[str, Any]:
    """The keys of Qwen2's config.json."""
    windowed = config.attention.pattern == "sliding_window"
    kind = "sliding_attention" if windowed else "full_attention"
    return {
        **write_common(config),
        "use_sliding_window": windowed,
        "sliding_window": config.attention.window if windowed else None,
        "max_window_layers": 0 if windowed else config.num_decoder_layers,
        "layer_types": [kind] * config.num_decoder_layers,
    }


def write_qwen3(config: TransformerConfig) -> dict[str, Any]:
    """The keys of Qwen3's config.json."""
    attention = config.attention
    return {
        **write_qwen2(config),
        "head_dim": attention.width(config.d_model),
        "attention_bias": attention.bias_value,
    }


def write_phi3(config: TransformerConfig) -> dict[str, Any]:
    """The keys of Phi-3's config.json."""
    attention = config.attention
    return {
        **write_common(config),
        "resid_pdrop": config.dropout,
        "sliding_window": attention.window if attention.pattern == "sliding_window" else None,
    }


def parts(to: Parts, *, joined: bool = False) -> None:
    """Every tensor.

    Args:
        joined: theirs are fused as ours are.
    """
    to.tensor("tables.target", f"{to.prefix}embed_tokens.weight")
    for i in range(to.model.config.num_decoder_layers):
        a, b = f"decoder.layers.{i}", f"{to.prefix}layers.{i}"
        to.norm(f"{a}.attention_residual.norm_before", f"{b}.input_layernorm")
        heads = ["qkv"] if joined else "qkv"
        to.linear(
            f"{a}.attention.query_key_value", *(f"{b}.self_attn.{name}_proj" for name in heads)
        )
        to.linear(f"{a}.attention.out", f"{b}.self_attn.o_proj")
        if to.model.config.attention.query_key_norm:
            to.norm(f"{a}.attention.query_norm", f"{b}.self_attn.q_norm")
            to.norm(f"{a}.attention.key_norm", f"{b}.self_attn.k_norm")
        to.norm(f"{a}.feedforward_residual.norm_before", f"{b}.post_attention_layernorm")
        up = ["gate_up"] if joined else ["gate", "up"]
        to.linear(f"{a}.feedforward.up", *(f"{b}.mlp.{name}_proj" for name in up))
        to.linear(f"{a}.feedforward.down", f"{b}.mlp.down_proj")
    to.norm("decoder.final_norm", f"{to.prefix}norm")
    to.output_table()


LLAMA = Architecture(
    model_type="llama",
    task="language_model",
    prefix="model.",
    read=read_llama,
    write=write_llama,
    parts=parts,
    aliases=shared_table,
    kept=(r"(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"score\.weight"),
    classes=("LlamaForCausalLM", "LlamaModel"),
    label_heads=of_decoder("Llama", of_tokens_="score"),
    without_head=(r"lm_head\.weight",),
)
MISTRAL = replace(
    LLAMA,
    model_type="mistral",
    read=read_mistral,
    write=write_mistral,
    classes=("MistralForCausalLM", "MistralModel"),
    label_heads=of_decoder("Mistral", of_tokens_="score"),
)
QWEN2 = replace(
    LLAMA,
    model_type="qwen2",
    read=read_qwen2,
    write=write_qwen2,
    classes=("Qwen2ForCausalLM", "Qwen2Model"),
    label_heads=of_decoder("Qwen2", of_tokens_="score"),
)
QWEN3 = replace(
    LLAMA,
    model_type="qwen3",
    read=read_qwen3,
    write=write_qwen3,
    classes=("Qwen3ForCausalLM", "Qwen3Model"),
    label_heads=of_decoder("Qwen3", of_tokens_="score"),
)
PHI3 = replace(
    LLAMA,
    model_type="phi3",
    read=read_phi3,
    write=write_phi3,
    parts=partial(parts, joined=True),
    classes=("Phi3ForCausalLM", "Phi3Model"),
    label_heads=of_decoder("Phi3", of_tokens_="score"),
)
