"""BERT: Devlin et al., 2019. With its pooler and its head for masked words where it has them."""

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


def read(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Our configuration; `names` say whether there is a pooler and a head."""
    return read_like_bert(keys, names, head="cls.predictions.bias", offset=0)


def read_like_bert(
    keys: Keys, names: Collection[str], *, head: str, offset: int
) -> TransformerConfig:
    """What BERT and RoBERTa have in common.

    Args:
        head: name of the bias of the head for masked words.
        offset: rows of the position table before the first token's.
    """
    keys.only("position_embedding_type", "absolute")
    headed = head in names
    tied = keys.flag("tie_word_embeddings", True)
    return TransformerConfig(
        family="encoder",
        vocab_size=keys.size("vocab_size"),
        pad_id=keys.get("pad_token_id", 0),
        d_model=keys.size("hidden_size"),
        num_encoder_layers=keys.size("num_hidden_layers"),
        attention=AttentionConfig(
            num_heads=keys.size("num_attention_heads"),
            dropout=keys.number("attention_probs_dropout_prob", 0.1),
            bias_query_key=True,
            bias_value=True,
            bias_out=True,
        ),
        feedforward=FeedForwardConfig(
            size=keys.size("intermediate_size"),
            activation=keys.choice("hidden_act", ACTIVATIONS, "gelu"),
        ),
        norm=NormConfig(eps=keys.number("layer_norm_eps", 1e-12)),
        position=PositionConfig(
            kind="learned",
            max_length=keys.size("max_position_embeddings") - offset,
            offset=offset,
        ),
        embedding=EmbeddingConfig(
            scale=False, norm=True, num_segments=keys.size("type_vocab_size", 2)
        ),
        head=HeadConfig(kind="transform", bias=True) if headed else HeadConfig(kind="none"),
        pooler=any(name.endswith("pooler.dense.weight") for name in names),
        dropout=keys.number("hidden_dropout_prob", 0.1),
        tie="all" if tied or not headed else "none",
    )


def write(config: TransformerConfig) -> dict[str, Any]:
    """The keys of a config.json."""
    position = config.position
    return {
        "vocab_size": config.vocab_size,
        "pad_token_id": config.pad_id,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.num_encoder_layers,
        "num_attention_heads": config.attention.num_heads,
        "attention_probs_dropout_prob": config.attention.dropout,
        "intermediate_size": config.feedforward.size,
        "hidden_act": ACTIVATIONS_BACK[config.feedforward.activation],
        "layer_norm_eps": config.norm.eps,
        "max_position_embeddings": position.max_length + position.offset,
        "type_vocab_size": config.embedding.num_segments,
        "hidden_dropout_prob": config.dropout,
        "tie_word_embeddings": config.tie == "all",
    }


def parts(to: Parts) -> None:
    """Every tensor."""
    like_bert(to)
    if to.model.head is not None:
        predictions = "cls.predictions"
        to.linear("head.dense", f"{predictions}.transform.dense")
        to.norm("head.norm", f"{predictions}.transform.LayerNorm")
        to.tensor("head.bias", f"{predictions}.bias")
        if to.model.config.tie == "none":
            to.tensor("tables.output", f"{predictions}.decoder.weight")


def like_bert(to: Parts) -> None:
    """The base model of BERT and RoBERTa."""
    embeddings = f"{to.prefix}embeddings"
    to.tensor("tables.source", f"{embeddings}.word_embeddings.weight")
    to.tensor("source_embedding.position.weight", f"{embeddings}.position_embeddings.weight")
    to.tensor("source_embedding.segments", f"{embeddings}.token_type_embeddings.weight")
    to.norm("source_embedding.norm", f"{embeddings}.LayerNorm")
    for i in range(to.model.config.num_encoder_layers):
        a, b = f"encoder.layers.{i}", f"{to.prefix}encoder.layer.{i}"
        heads = [f"{b}.attention.self.{name}" for name in ("query", "key", "value")]
        to.linear(f"{a}.attention.query_key_value", *heads)
        to.linear(f"{a}.attention.out", f"{b}.attention.output.dense")
        to.norm(f"{a}.attention_residual.norm_after", f"{b}.attention.output.LayerNorm")
        to.linear(f"{a}.feedforward.up", f"{b}.intermediate.dense")
        to.linear(f"{a}.feedforward.down", f"{b}.output.dense")
        to.norm(f"{a}.feedforward_residual.norm_after", f"{b}.output.LayerNorm")
    if to.model.pooler is not None:
        to.linear("pooler.dense", f"{to.prefix}pooler.dense")


def aliases(config: TransformerConfig) -> dict[str, str]:
    """The head's table and bias under second names."""
    if config.head.kind == "none":
        return {}
    found = {"cls.predictions.decoder.bias": "head.bias"}
    if config.tie == "all":
        found["cls.predictions.decoder.weight"] = "tables.source"
    return found


BERT = Architecture(
    model_type="bert",
    task="encoder",
    prefix="bert.",
    read=read,
    write=write,
    parts=parts,
    aliases=aliases,
    kept=(
        r"cls\.seq_relationship\.(weight|bias)",
        r"(bert\.)?embeddings\.position_ids",
        r"(bert\.)?embeddings\.token_type_ids",
        r"(classifier|qa_outputs)\.(weight|bias)",
    ),
    classes=("BertForMaskedLM", "BertModel"),
    label_heads=(
        LabelHead(
            name="BertForSequenceClassification",
            config=ClassifierConfig(pooling="first", dense=True, activation="tanh"),
            dense="bert.pooler.dense",
            out="classifier",
            dropout_key="classifier_dropout",
        ),
        of_tokens("BertForTokenClassification", dropout_key="classifier_dropout"),
    ),
    without_head=(r"bert\.pooler\.dense\.(weight|bias)", r"cls\.predictions\..*"),
)
