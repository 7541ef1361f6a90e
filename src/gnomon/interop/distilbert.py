"""DistilBERT: Sanh et al., 2019. BERT without segments and pooler."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gnomon.interop.architecture import ACTIVATIONS, ACTIVATIONS_BACK, Architecture
from gnomon.interop.keys import Keys
from gnomon.interop.label_heads import LabelHead, of_tokens
from gnomon.interop.parts import Parts
from gnomon.model import (
    AttentionConfig,
    ClassifierConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    HeadConfig,
    NormConfig,
    PositionConfig,
    TransformerConfig,
)

_EPS = 1e-12  # fixed in its code


def read(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Our configuration; `names` say whether there is a head."""
    keys.silent("sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout")  # only at the start
    headed = "vocab_projector.bias" in names
    tied = keys.flag("tie_word_embeddings", True)
    activation = keys.choice("activation", ACTIVATIONS, "gelu")
    return TransformerConfig(
        family="encoder",
        vocab_size=keys.size("vocab_size"),
        pad_id=keys.get("pad_token_id", 0),
        d_model=keys.size("dim"),
        num_encoder_layers=keys.size("n_layers"),
        attention=AttentionConfig(
            num_heads=keys.size("n_heads"),
            dropout=keys.number("attention_dropout", 0.1),
            bias_query_key=True,
            bias_value=True,
            bias_out=True,
        ),
        feedforward=FeedForwardConfig(size=keys.size("hidden_dim"), activation=activation),
        norm=NormConfig(eps=_EPS),
        position=PositionConfig(kind="learned", max_length=keys.size("max_position_embeddings")),
        embedding=EmbeddingConfig(scale=False, norm=True),
        head=HeadConfig(kind="transform", bias=True) if headed else HeadConfig(kind="none"),
        dropout=keys.number("dropout", 0.1),
        tie="all" if tied or not headed else "none",
    )


def write(config: TransformerConfig) -> dict[str, Any]:
    """The keys of a config.json."""
    return {
        "vocab_size": config.vocab_size,
        "pad_token_id": config.pad_id,
        "dim": config.d_model,
        "n_layers": config.num_encoder_layers,
        "n_heads": config.attention.num_heads,
        "attention_dropout": config.attention.dropout,
        "hidden_dim": config.feedforward.size,
        "activation": ACTIVATIONS_BACK[config.feedforward.activation],
        "max_position_embeddings": config.position.max_length,
        "dropout": config.dropout,
        "tie_word_embeddings": config.tie == "all",
    }


def parts(to: Parts) -> None:
    """Every tensor."""
    embeddings = f"{to.prefix}embeddings"
    to.tensor("tables.source", f"{embeddings}.word_embeddings.weight")
    to.tensor("source_embedding.position.weight", f"{embeddings}.position_embeddings.weight")
    to.norm("source_embedding.norm", f"{embeddings}.LayerNorm")
    for i in range(to.model.config.num_encoder_layers):
        a, b = f"encoder.layers.{i}", f"{to.prefix}transformer.layer.{i}"
        to.linear(
            f"{a}.attention.query_key_value", *(f"{b}.attention.{name}_lin" for name in "qkv")
        )
        to.linear(f"{a}.attention.out", f"{b}.attention.out_lin")
        to.norm(f"{a}.attention_residual.norm_after", f"{b}.sa_layer_norm")
        to.linear(f"{a}.feedforward.up", f"{b}.ffn.lin1")
        to.linear(f"{a}.feedforward.down", f"{b}.ffn.lin2")
        to.norm(f"{a}.feedforward_residual.norm_after", f"{b}.output_layer_norm")
    if to.model.head is not None:
        to.linear("head.dense", "vocab_transform")
        to.norm("head.norm", "vocab_layer_norm")
        to.tensor("head.bias", "vocab_projector.bias")
        if to.model.config.tie == "none":
            to.tensor("tables.output", "vocab_projector.weight")


def aliases(config: TransformerConfig) -> dict[str, str]:
    """The head's table under a second name."""
    headed = config.head.kind != "none" and config.tie == "all"
    return {"vocab_projector.weight": "tables.source"} if headed else {}


DISTILBERT = Architecture(
    model_type="distilbert",
    task="encoder",
    prefix="distilbert.",
    read=read,
    write=write,
    parts=parts,
    aliases=aliases,
    kept=(
        r"(distilbert\.)?embeddings\.position_ids",
        r"(pre_classifier|classifier|qa_outputs)\.(weight|bias)",
    ),
    classes=("DistilBertForMaskedLM", "DistilBertModel"),
    label_heads=(
        LabelHead(
            name="DistilBertForSequenceClassification",
            config=ClassifierConfig(pooling="first", dense=True, activation="relu"),
            dense="pre_classifier",
            out="classifier",
            dropout_key="seq_classif_dropout",
            dropout=0.2,
        ),
        of_tokens("DistilBertForTokenClassification"),
    ),
    without_head=(r"vocab_(transform|layer_norm|projector)\.(weight|bias)",),
)
