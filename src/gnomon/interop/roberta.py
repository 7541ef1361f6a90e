"""RoBERTa, XLM-RoBERTa, CamemBERT: BERT's blocks, positions that begin behind the padding's own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gnomon.interop.architecture import Architecture
from gnomon.interop.bert import like_bert, read_like_bert, write
from gnomon.interop.keys import Keys
from gnomon.interop.label_heads import LabelHead, of_tokens
from gnomon.interop.parts import Parts
from gnomon.model import ClassifierConfig, TransformerConfig


def read(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Our configuration; the first token stands at the position behind `pad_token_id`."""
    pad_id = keys.get("pad_token_id", 1)
    if not isinstance(pad_id, int):
        raise keys.refused("pad_token_id", pad_id, "positions are counted from it, so name the id")
    config = read_like_bert(keys, names, head="lm_head.bias", offset=pad_id + 1)
    config = replace(config, pad_id=pad_id)
    if config.head.kind == "transform":  # the head's activation is fixed
        keys.only("hidden_act", "gelu")
    return config


def parts(to: Parts) -> None:
    """Every tensor."""
    like_bert(to)
    if to.model.head is not None:
        to.linear("head.dense", "lm_head.dense")
        to.norm("head.norm", "lm_head.layer_norm")
        to.tensor("head.bias", "lm_head.bias")
        if to.model.config.tie == "none":
            to.tensor("tables.output", "lm_head.decoder.weight")


def aliases(config: TransformerConfig) -> dict[str, str]:
    """The head's table and bias under second names."""
    if config.head.kind == "none":
        return {}
    found = {"lm_head.decoder.bias": "head.bias"}
    if config.tie == "all":
        found["lm_head.decoder.weight"] = "tables.source"
    return found


def _label_heads(name: str) -> tuple[LabelHead, LabelHead]:
    return (
        LabelHead(
            name=f"{name}ForSequenceClassification",
            config=ClassifierConfig(pooling="first", dense=True, activation="tanh"),
            dense="classifier.dense",
            out="classifier.out_proj",
            dropout_key="classifier_dropout",
        ),
        of_tokens(f"{name}ForTokenClassification", dropout_key="classifier_dropout"),
    )


ROBERTA = Architecture(
    model_type="roberta",
    task="encoder",
    prefix="roberta.",
    read=read,
    write=write,
    parts=parts,
    aliases=aliases,
    kept=(
        r"(roberta\.)?embeddings\.position_ids",
        r"(roberta\.)?embeddings\.token_type_ids",
        r"classifier\.(dense\.|out_proj\.)?(weight|bias)",
        r"qa_outputs\.(weight|bias)",
    ),
    classes=("RobertaForMaskedLM", "RobertaModel"),
    label_heads=_label_heads("Roberta"),
    without_head=(r"roberta\.pooler\.dense\.(weight|bias)", r"lm_head\..*"),
)
XLM_ROBERTA = replace(
    ROBERTA,
    model_type="xlm-roberta",
    classes=("XLMRobertaForMaskedLM", "XLMRobertaModel"),
    label_heads=_label_heads("XLMRoberta"),
)
CAMEMBERT = replace(
    ROBERTA,
    model_type="camembert",
    classes=("CamembertForMaskedLM", "CamembertModel"),
    label_heads=_label_heads("Camembert"),
)
