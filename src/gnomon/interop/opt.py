"""OPT: Zhang et al., 2022. Relu, and positions that begin at the third row of their table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gnomon.interop.architecture import ACTIVATIONS, ACTIVATIONS_BACK, Architecture
from gnomon.interop.keys import Keys
from gnomon.interop.label_heads import of_decoder
from gnomon.interop.parts import Parts, shared_table
from gnomon.model import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    NormConfig,
    PositionConfig,
    TransformerConfig,
)

_OFFSET = 2  # rows of the position table that no token uses


def read(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Our configuration."""
    width = keys.size("hidden_size")
    keys.only("word_embed_proj_dim", width, None)
    keys.only("_remove_final_layer_norm", False)
    keys.only("layer_norm_elementwise_affine", True)
    keys.silent("layerdrop")
    bias = keys.flag("enable_bias", True)
    return TransformerConfig(
        family="decoder",
        vocab_size=keys.size("vocab_size"),
        pad_id=keys.get("pad_token_id", 1),
        d_model=width,
        num_decoder_layers=keys.size("num_hidden_layers"),
        attention=AttentionConfig(
            num_heads=keys.size("num_attention_heads"),
            dropout=keys.number("attention_dropout", 0.0),
            bias_query_key=bias,
            bias_value=bias,
            bias_out=bias,
        ),
        feedforward=FeedForwardConfig(
            size=keys.size("ffn_dim"),
            activation=keys.choice("activation_function", ACTIVATIONS, "relu"),
            bias=bias,
        ),
        norm=NormConfig(placement="pre" if keys.flag("do_layer_norm_before", True) else "post"),
        position=PositionConfig(
            kind="learned", max_length=keys.size("max_position_embeddings"), offset=_OFFSET
        ),
        embedding=EmbeddingConfig(scale=False, dropout=0.0),
        dropout=keys.number("dropout", 0.1),
        tie="all" if keys.flag("tie_word_embeddings", True) else "none",
    )


def write(config: TransformerConfig) -> dict[str, Any]:
    """The keys of a config.json."""
    return {
        "vocab_size": config.vocab_size,
        "pad_token_id": config.pad_id,
        "hidden_size": config.d_model,
        "word_embed_proj_dim": config.d_model,
        "num_hidden_layers": config.num_decoder_layers,
        "num_attention_heads": config.attention.num_heads,
        "attention_dropout": config.attention.dropout,
        "ffn_dim": config.feedforward.size,
        "activation_function": ACTIVATIONS_BACK[config.feedforward.activation],
        "enable_bias": config.feedforward.bias,
        "do_layer_norm_before": config.norm.placement == "pre",
        "max_position_embeddings": config.position.max_length,
        "dropout": config.dropout,
        "tie_word_embeddings": config.tie != "none",
    }


def parts(to: Parts) -> None:
    """Every tensor."""
    config, stack = to.model.config, f"{to.prefix}decoder"
    norm = "norm_before" if config.norm.placement == "pre" else "norm_after"
    to.tensor("tables.target", f"{stack}.embed_tokens.weight")
    to.tensor("target_embedding.position.weight", f"{stack}.embed_positions.weight")
    for i in range(config.num_decoder_layers):
        a, b = f"decoder.layers.{i}", f"{stack}.layers.{i}"
        heads = [f"{b}.self_attn.{name}_proj" for name in "qkv"]
        to.linear(f"{a}.attention.query_key_value", *heads)
        to.linear(f"{a}.attention.out", f"{b}.self_attn.out_proj")
        to.norm(f"{a}.attention_residual.{norm}", f"{b}.self_attn_layer_norm")
        to.linear(f"{a}.feedforward.up", f"{b}.fc1")
        to.linear(f"{a}.feedforward.down", f"{b}.fc2")
        to.norm(f"{a}.feedforward_residual.{norm}", f"{b}.final_layer_norm")
    if config.norm.placement == "pre":
        to.norm("decoder.final_norm", f"{stack}.final_layer_norm")
    to.output_table()


OPT = Architecture(
    model_type="opt",
    task="language_model",
    prefix="model.",
    read=read,
    write=write,
    parts=parts,
    aliases=shared_table,
    kept=(r"score\.weight",),
    classes=("OPTForCausalLM", "OPTModel"),
    label_heads=of_decoder("OPT", of_tokens_="score")[:1],
    without_head=(r"lm_head\.weight",),
)
