"""Marian's translation models (OPUS-MT among them) in Hugging Face's form."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gnomon.interop import bart
from gnomon.interop.architecture import Architecture
from gnomon.interop.keys import Keys
from gnomon.interop.parts import Parts
from gnomon.model import PositionConfig, TransformerConfig


def read(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Our configuration: one vocabulary or two, sinusoidal positions in halves."""
    keys.only("normalize_before", False)
    keys.only("add_final_layer_norm", False)
    keys.only("normalize_embedding", False)
    keys.only("static_position_embeddings", True)
    keys.only("extra_pos_embeddings", 0, 58100, 2)  # of programs before; nothing reads it
    keys.silent("add_bias_logits", "num_hidden_layers")
    keys.only("tie_word_embeddings", True)
    shared = keys.flag("share_encoder_decoder_embeddings", True)
    vocab_size = keys.size("vocab_size")
    if shared and keys.get("decoder_vocab_size", None) not in (None, vocab_size):
        raise keys.refused(
            "decoder_vocab_size",
            keys.get("decoder_vocab_size"),
            "one shared table has one size",
        )
    position = PositionConfig(
        kind="sinusoidal", layout="halves", max_length=keys.size("max_position_embeddings", 1024)
    )
    return bart.read_common(
        keys,
        position,
        embedding_norm=False,
        tie="all" if shared else "decoder",
        pad_id=58100,
    )


def write(config: TransformerConfig) -> dict[str, Any]:
    """The keys of a config.json."""
    return {
        **bart.write(config),
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": config.tie == "all",
        "decoder_vocab_size": config.output_vocab_size(),
    }


def parts(to: Parts) -> None:
    """Every tensor; positions are computed."""
    if to.model.config.tie == "all":
        to.tensor("tables.source", f"{to.prefix}shared.weight")
    else:
        to.tensor("tables.source", f"{to.prefix}encoder.embed_tokens.weight")
        to.tensor("tables.target", f"{to.prefix}decoder.embed_tokens.weight")
    bart.stacks(to)
    to.tensor("head.bias", "final_logits_bias", leading=True)


def aliases(config: TransformerConfig) -> dict[str, str]:
    """The tables under their other names."""
    if config.tie == "all":
        return bart.aliases(config)
    return {"lm_head.weight": "tables.target"}


MARIAN = Architecture(
    model_type="marian",
    task="translation",
    prefix="model.",
    read=read,
    write=write,
    parts=parts,
    aliases=aliases,
    sinusoids=(
        "model.encoder.embed_positions.weight",
        "model.decoder.embed_positions.weight",
    ),
    classes=("MarianMTModel", "MarianModel"),
)
