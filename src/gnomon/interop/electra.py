"""ELECTRA: Clark et al., 2020. BERT's blocks without pooler; heads of its pretraining are kept."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gnomon.interop import bert
from gnomon.interop.architecture import Architecture
from gnomon.interop.keys import Keys
from gnomon.interop.label_heads import LabelHead, of_tokens
from gnomon.model import ClassifierConfig, TransformerConfig


def read(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Our configuration; embeddings that are narrower than the model (small) are refused."""
    width, narrow = keys.size("hidden_size"), keys.get("embedding_size", 128)
    if narrow != width:
        raise keys.refused("embedding_size", narrow, f"it must be hidden_size = {width}")
    keys.silent(*(f"summary_{name}" for name in ("type", "use_proj", "activation")))
    keys.silent("summary_last_dropout")
    return bert.read_like_bert(keys, names, head="no head is taken in", offset=0)


def write(config: TransformerConfig) -> dict[str, Any]:
    """The keys of a config.json."""
    return {**bert.write(config), "embedding_size": config.d_model}


ELECTRA = Architecture(
    model_type="electra",
    task="encoder",
    prefix="electra.",
    read=read,
    write=write,
    parts=bert.like_bert,
    kept=(
        r"(electra\.)?embeddings\.(position|token_type)_ids",
        r"(discriminator|generator)_predictions\..*",
        r"generator_lm_head\.(weight|bias)",
        r"classifier\.(dense\.|out_proj\.)?(weight|bias)",
        r"(qa_outputs|sequence_summary\.summary)\.(weight|bias)",
    ),
    classes=("ElectraModel", "ElectraModel"),
    label_heads=(
        LabelHead(
            name="ElectraForSequenceClassification",
            config=ClassifierConfig(pooling="first", dense=True, activation="gelu"),
            dense="classifier.dense",
            out="classifier.out_proj",
            dropout_key="classifier_dropout",
        ),
        of_tokens("ElectraForTokenClassification", dropout_key="classifier_dropout"),
    ),
)
