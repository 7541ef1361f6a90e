"""BART and mBART: Lewis et al. and Liu et al., 2020; and what they share with Marian."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from gnomon.interop.architecture import ACTIVATIONS, ACTIVATIONS_BACK, Architecture
from gnomon.interop.keys import Keys
from gnomon.interop.parts import Parts
from gnomon.model import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    HeadConfig,
    NormConfig,
    PositionConfig,
    TransformerConfig,
)

_OFFSET = 2  # rows of the position table that no token uses


def read(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """BART's configuration."""
    return _read(keys, before=False)


def read_mbart(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """mBART's: norms before the sublayers, and one behind each stack."""
    config = _read(keys, before=True)
    return replace(config, norm=NormConfig(placement="pre"))


def _read(keys: Keys, *, before: bool) -> TransformerConfig:
    keys.only("normalize_before", before)
    keys.only("add_final_layer_norm", before)
    keys.only("normalize_embedding", True)
    keys.only("static_position_embeddings", False)
    keys.only("extra_pos_embeddings", _OFFSET)
    keys.silent("add_bias_logits", "num_hidden_layers", "gradient_checkpointing", "save_step")
    keys.only("tie_word_embeddings", True)
    position = PositionConfig(
        kind="learned", max_length=keys.size("max_position_embeddings"), offset=_OFFSET
    )
    return read_common(keys, position, embedding_norm=True, tie="all", pad_id=1)


def read_common(
    keys: Keys, position: PositionConfig, *, embedding_norm: bool, tie: Any, pad_id: int
) -> TransformerConfig:
    """What BART and Marian have in common.

    Args:
        pad_id: the architecture's default.
    """
    same = {
        "heads": (keys.size("encoder_attention_heads"), keys.size("decoder_attention_heads")),
        "ffn_dim": (keys.size("encoder_ffn_dim"), keys.size("decoder_ffn_dim")),
    }
    for what, (encoder, decoder) in same.items():
        if encoder != decoder:
            key = {"heads": "attention_heads"}.get(what, what)
            raise keys.refused(f"decoder_{key}", decoder, f"it must be encoder_{key} = {encoder}")
    target_size = keys.get("decoder_vocab_size", None)
    vocab_size = keys.size("vocab_size")
    return TransformerConfig(
        family="encoder_decoder",
        vocab_size=vocab_size,
        target_vocab_size=None if tie == "all" else target_size,
        pad_id=keys.get("pad_token_id", pad_id),
        d_model=keys.size("d_model"),
        num_encoder_layers=keys.size("encoder_layers"),
        num_decoder_layers=keys.size("decoder_layers"),
        attention=AttentionConfig(
            num_heads=same["heads"][0],
            dropout=keys.number("attention_dropout", 0.0),
            bias_query_key=True,
            bias_value=True,
            bias_out=True,
        ),
        feedforward=FeedForwardConfig(
            size=same["ffn_dim"][0],
            activation=keys.choice("activation_function", ACTIVATIONS, "gelu"),
            dropout=keys.number("activation_dropout", 0.0),
        ),
        position=position,
        embedding=EmbeddingConfig(scale=keys.flag("scale_embedding", False), norm=embedding_norm),
        head=HeadConfig(bias=True),
        dropout=keys.number("dropout", 0.1),
        tie=tie,
    )


def write(config: TransformerConfig) -> dict[str, Any]:
    """The keys of a config.json, Marian's too."""
    both = {
        "attention_heads": config.attention.num_heads,
        "ffn_dim": config.feedforward.size,
    }
    return {
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "pad_token_id": config.pad_id,
        "d_model": config.d_model,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        **{f"{side}_{key}": both[key] for side in ("encoder", "decoder") for key in both},
        "attention_dropout": config.attention.dropout,
        "activation_dropout": config.feedforward.dropout,
        "activation_function": ACTIVATIONS_BACK[config.feedforward.activation],
        "max_position_embeddings": config.position.max_length,
        "scale_embedding": config.embedding.scale,
        "dropout": config.dropout,
        "tie_word_embeddings": config.tie != "none",
    }


def parts(to: Parts) -> None:
    """Every tensor."""
    to.tensor("tables.source", f"{to.prefix}shared.weight")
    for side, ours in (("encoder", "source"), ("decoder", "target")):
        embedding, theirs = f"{ours}_embedding", f"{to.prefix}{side}"
        to.tensor(f"{embedding}.position.weight", f"{theirs}.embed_positions.weight")
        to.norm(f"{embedding}.norm", f"{theirs}.layernorm_embedding")
    stacks(to)
    to.tensor("head.bias", "final_logits_bias", leading=True)


def stacks(to: Parts) -> None:
    """The layers of both stacks, as Marian has them, too."""
    config = to.model.config
    norm = "norm_before" if config.norm.placement == "pre" else "norm_after"
    counts = {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers}
    for stack, count in counts.items():
        if norm == "norm_before":
            to.norm(f"{stack}.final_norm", f"{to.prefix}{stack}.layer_norm")
        for i in range(count):
            a, b = f"{stack}.layers.{i}", f"{to.prefix}{stack}.layers.{i}"
            heads = [f"{b}.self_attn.{name}_proj" for name in "qkv"]
            to.linear(f"{a}.attention.query_key_value", *heads)
            to.linear(f"{a}.attention.out", f"{b}.self_attn.out_proj")
            to.norm(f"{a}.attention_residual.{norm}", f"{b}.self_attn_layer_norm")
            if stack == "decoder":
                to.linear(f"{a}.cross.query", f"{b}.encoder_attn.q_proj")
                pair = [f"{b}.encoder_attn.{name}_proj" for name in "kv"]
                to.linear(f"{a}.cross.key_value", *pair)
                to.linear(f"{a}.cross.out", f"{b}.encoder_attn.out_proj")
                to.norm(f"{a}.cross_residual.{norm}", f"{b}.encoder_attn_layer_norm")
            to.linear(f"{a}.feedforward.up", f"{b}.fc1")
            to.linear(f"{a}.feedforward.down", f"{b}.fc2")
            to.norm(f"{a}.feedforward_residual.{norm}", f"{b}.final_layer_norm")


def aliases(config: TransformerConfig) -> dict[str, str]:
    """The one table under its other names."""
    names = ("lm_head", "model.encoder.embed_tokens", "model.decoder.embed_tokens")
    return {f"{name}.weight": "tables.source" for name in names}


BART = Architecture(
    model_type="bart",
    task="translation",
    prefix="model.",
    read=read,
    write=write,
    parts=parts,
    aliases=aliases,
    kept=(r"classification_head\.(dense|out_proj)\.(weight|bias)", r"qa_outputs\.(weight|bias)"),
    classes=("BartForConditionalGeneration", "BartModel"),
)
MBART = replace(
    BART,
    model_type="mbart",
    read=read_mbart,
    classes=("MBartForConditionalGeneration", "MBartModel"),
)
