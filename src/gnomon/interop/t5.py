"""T5: Raffel et al., 2020, the first version and 1.1 (gated, with an output table of its own).

mT5 (Xue et al., 2021) is a 1.1 of many languages.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from gnomon.interop.architecture import ACTIVATIONS, Architecture
from gnomon.interop.keys import Keys
from gnomon.interop.parts import Parts
from gnomon.model import (
    AttentionConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    HeadConfig,
    NormConfig,
    PositionConfig,
    RelativeConfig,
    TransformerConfig,
)


def read(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """Our configuration.

    Version 1 scales hidden states before its one table. Whether a 1.1, which does not, has an
    output table of its own is what the file says: `tie_word_embeddings` is true in those that
    newer programs wrote, whatever it was, and `scale_decoder_outputs` then false.
    """
    tied = keys.get("tie_word_embeddings", None) is not False
    scaled = bool(keys.get("scale_decoder_outputs", tied))
    return _read(keys, names, "relu", tied=tied, scaled=scaled)


def read_mt5(keys: Keys, names: Collection[str]) -> TransformerConfig:
    """mT5's: it never scales, whatever is said of its tables."""
    keys.silent("tie_word_embeddings", "scale_decoder_outputs")
    return _read(keys, names, "gated-gelu", tied=True, scaled=False)


def _read(
    keys: Keys, names: Collection[str], activation: str, *, tied: bool, scaled: bool
) -> TransformerConfig:
    projection = keys.get("feed_forward_proj", activation)
    first, _, last = str(projection).rpartition("-")
    # gelu without "gated-" is the exact one; "gated-gelu" is written and means the approximation
    activation = "gelu_new" if projection == "gated-gelu" else last
    if first not in ("", "gated") or activation not in ACTIVATIONS:
        raise keys.refused("feed_forward_proj", projection, "for example relu or gated-gelu")
    keys.only("is_gated_act", first == "gated")
    keys.only("dense_act_fn", activation)
    keys.silent("n_positions", "num_hidden_layers", "d_head", "use_scaled_init")
    keys.only("is_decoder", False)
    num_layers, rate = keys.size("num_layers"), keys.number("dropout_rate", 0.1)
    return TransformerConfig(
        family="encoder_decoder",
        vocab_size=keys.size("vocab_size"),
        pad_id=keys.get("pad_token_id", 0),
        d_model=keys.size("d_model"),
        num_encoder_layers=num_layers,
        num_decoder_layers=keys.get("num_decoder_layers", None) or num_layers,
        attention=AttentionConfig(
            num_heads=keys.size("num_heads"), head_size=keys.size("d_kv"), scale=1.0, dropout=rate
        ),
        feedforward=FeedForwardConfig(
            size=keys.size("d_ff"),
            activation=ACTIVATIONS[activation],  # type: ignore[arg-type]
            gated=first == "gated",
            bias=False,
            dropout=rate,
        ),
        norm=NormConfig(kind="rms", placement="pre", eps=keys.number("layer_norm_epsilon", 1e-6)),
        position=PositionConfig(
            kind="relative",
            relative=RelativeConfig(
                num_buckets=keys.size("relative_attention_num_buckets", 32),
                max_distance=keys.size("relative_attention_max_distance", 128),
            ),
        ),
        embedding=EmbeddingConfig(scale=False),
        head=HeadConfig(scale=scaled),
        dropout=rate,
        tie="inputs" if "lm_head.weight" in names and not (tied and scaled) else "all",
    )


def write(config: TransformerConfig) -> dict[str, Any]:
    """The keys of a config.json."""
    feedforward = config.feedforward
    theirs = {"gelu_tanh": "gelu_new", "swish": "silu"}.get(
        feedforward.activation, feedforward.activation
    )
    if feedforward.gated:
        theirs = "gated-gelu" if theirs == "gelu_new" else f"gated-{theirs}"
    return {
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "pad_token_id": config.pad_id,
        "d_model": config.d_model,
        "num_layers": config.num_encoder_layers,
        "num_decoder_layers": config.num_decoder_layers,
        "num_heads": config.attention.num_heads,
        "d_kv": config.attention.width(config.d_model),
        "d_ff": feedforward.size,
        "dropout_rate": config.dropout,
        "feed_forward_proj": theirs,
        "layer_norm_epsilon": config.norm.eps,
        "relative_attention_num_buckets": config.position.relative.num_buckets,
        "relative_attention_max_distance": config.position.relative.max_distance,
        "tie_word_embeddings": config.head.scale,
        "scale_decoder_outputs": config.head.scale,
    }


def parts(to: Parts) -> None:
    """Every tensor."""
    config = to.model.config
    to.tensor("tables.source", "shared.weight")
    if config.tie == "inputs":
        to.tensor("tables.output", "lm_head.weight")
    counts = {"encoder": config.num_encoder_layers, "decoder": config.num_decoder_layers}
    for stack, count in counts.items():
        first = f"{stack}.block.0.layer.0.SelfAttention"
        to.tensor(f"{stack}.score_bias.weight", f"{first}.relative_attention_bias.weight")
        to.norm(f"{stack}.final_norm", f"{stack}.final_layer_norm")
        for i in range(count):
            layer(to, stack, i)


def layer(to: Parts, stack: str, i: int) -> None:
    """One layer."""
    a, b = f"{stack}.layers.{i}", f"{stack}.block.{i}.layer"
    to.linear(f"{a}.attention.query_key_value", *(f"{b}.0.SelfAttention.{name}" for name in "qkv"))
    to.linear(f"{a}.attention.out", f"{b}.0.SelfAttention.o")
    to.norm(f"{a}.attention_residual.norm_before", f"{b}.0.layer_norm")
    last = 1
    if stack == "decoder":
        last = 2
        to.linear(f"{a}.cross.query", f"{b}.1.EncDecAttention.q")
        to.linear(f"{a}.cross.key_value", *(f"{b}.1.EncDecAttention.{name}" for name in "kv"))
        to.linear(f"{a}.cross.out", f"{b}.1.EncDecAttention.o")
        to.norm(f"{a}.cross_residual.norm_before", f"{b}.1.layer_norm")
    dense = f"{b}.{last}.DenseReluDense"
    gated = to.model.config.feedforward.gated
    up = [f"{dense}.wi_0", f"{dense}.wi_1"] if gated else [f"{dense}.wi"]
    to.linear(f"{a}.feedforward.up", *up)
    to.linear(f"{a}.feedforward.down", f"{dense}.wo")
    to.norm(f"{a}.feedforward_residual.norm_before", f"{b}.{last}.layer_norm")


def aliases(config: TransformerConfig) -> dict[str, str]:
    """The input table under its other names."""
    names = ["encoder.embed_tokens", "decoder.embed_tokens"]
    names += ["lm_head"] if config.tie == "all" else []
    return {f"{name}.weight": "tables.source" for name in names}


T5 = Architecture(
    model_type="t5",
    task="translation",
    prefix="",
    read=read,
    write=write,
    parts=parts,
    aliases=aliases,
    # an early slip of the original code, which nothing reads
    kept=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
    classes=("T5ForConditionalGeneration", "T5Model"),
)
MT5 = replace(
    T5,
    model_type="mt5",
    read=read_mt5,
    classes=("MT5ForConditionalGeneration", "MT5Model"),
)
