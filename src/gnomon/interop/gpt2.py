"""GPT-2: Radford et al., 2019. Its weights lie transposed, query, key and value already fused."""

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


def read(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Our configuration."""
    keys.only("scale_attn_by_inverse_layer_idx", False)
    keys.silent(  # the first changes rounding alone; the others are of another head
        "reorder_and_upcast_attn",
        *(f"summary_{name}" for name in ("activation", "first_dropout", "proj_to_labels")),
        *(f"summary_{name}" for name in ("type", "use_proj")),
        "n_ctx",
    )
    width = keys.size("n_embd")
    return TransformerConfig(
        family="decoder",
        vocab_size=keys.size("vocab_size"),
        pad_id=keys.get("pad_token_id", None),
        d_model=width,
        num_decoder_layers=keys.size("n_layer"),
        attention=AttentionConfig(
            num_heads=keys.size("n_head"),
            scale=None if keys.flag("scale_attn_weights", True) else 1.0,
            dropout=keys.number("attn_pdrop", 0.1),
            bias_query_key=True,
            bias_value=True,
            bias_out=True,
        ),
        feedforward=FeedForwardConfig(
            size=keys.get("n_inner", None) or 4 * width,
            activation=keys.choice("activation_function", ACTIVATIONS, "gelu_new"),
        ),
        norm=NormConfig(placement="pre", eps=keys.number("layer_norm_epsilon", 1e-5)),
        position=PositionConfig(kind="learned", max_length=keys.size("n_positions")),
        embedding=EmbeddingConfig(scale=False, dropout=keys.number("embd_pdrop", 0.1)),
        dropout=keys.number("resid_pdrop", 0.1),
        tie="all" if keys.flag("tie_word_embeddings", True) else "none",
    )


def write(config: TransformerConfig) -> dict[str, Any]:
    """The keys of a config.json."""
    dropout = config.embedding.dropout
    return {
        "vocab_size": config.vocab_size,
        "pad_token_id": config.pad_id,
        "n_embd": config.d_model,
        "n_layer": config.num_decoder_layers,
        "n_head": config.attention.num_heads,
        "scale_attn_weights": config.attention.scale is None,
        "attn_pdrop": config.attention.dropout,
        "n_inner": config.feedforward.size,
        "activation_function": ACTIVATIONS_BACK[config.feedforward.activation],
        "layer_norm_epsilon": config.norm.eps,
        "n_positions": config.position.max_length,
        "embd_pdrop": config.dropout if dropout is None else dropout,
        "resid_pdrop": config.dropout,
        "tie_word_embeddings": config.tie != "none",
    }


def parts(to: Parts) -> None:
    """Every tensor."""
    to.tensor("tables.target", f"{to.prefix}wte.weight")
    to.tensor("target_embedding.position.weight", f"{to.prefix}wpe.weight")
    for i in range(to.model.config.num_decoder_layers):
        a, b = f"decoder.layers.{i}", f"{to.prefix}h.{i}"
        to.norm(f"{a}.attention_residual.norm_before", f"{b}.ln_1")
        to.linear(f"{a}.attention.query_key_value", f"{b}.attn.c_attn", transposed=True)
        to.linear(f"{a}.attention.out", f"{b}.attn.c_proj", transposed=True)
        to.norm(f"{a}.feedforward_residual.norm_before", f"{b}.ln_2")
        to.linear(f"{a}.feedforward.up", f"{b}.mlp.c_fc", transposed=True)
        to.linear(f"{a}.feedforward.down", f"{b}.mlp.c_proj", transposed=True)
    to.norm("decoder.final_norm", f"{to.prefix}ln_f")
    to.output_table()


GPT2 = Architecture(
    model_type="gpt2",
    task="language_model",
    prefix="transformer.",
    read=read,
    write=write,
    parts=parts,
    aliases=shared_table,
    kept=(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)", r"score\.weight"),
    classes=("GPT2LMHeadModel", "GPT2Model"),
    label_heads=of_decoder("GPT2", of_tokens_="classifier"),
    without_head=(r"lm_head\.weight",),
)
