"""Which choices of a `TransformerConfig` cannot work, and which do nothing beside the others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.model.config import TransformerConfig

MAX_SIZE = 1 << 24  # far beyond any model; larger numbers are slips of the pen


def find_problems(config: TransformerConfig) -> list[str]:
    """Everything wrong with `config` at once: the rule, the value seen, the mend."""
    return [
        *size_problems(config),
        *attention_problems(config),
        *position_problems(config),
        *table_problems(config),
    ]


def size_problems(config: TransformerConfig) -> list[str]:
    """Numbers that are too small, and probabilities outside [0, 1)."""
    sizes = {
        "vocab_size": config.vocab_size,
        "d_model": config.d_model,
        "feedforward.size": config.feedforward.size,
        "attention.num_heads": config.attention.num_heads,
        "attention.num_key_value_heads": config.attention.key_value_heads(),
        "attention.window": config.attention.window,
        "attention.dilation": config.attention.dilation,
        "attention.block_size": config.attention.block_size,
        "position.max_length": config.position.max_length,
    }
    if config.attention.head_size is not None:
        sizes["attention.head_size"] = config.attention.head_size
    if config.target_vocab_size is not None:
        sizes["target_vocab_size"] = config.target_vocab_size
    if config.has_encoder():
        sizes["num_encoder_layers"] = config.num_encoder_layers
    if config.has_decoder():
        sizes["num_decoder_layers"] = config.num_decoder_layers
    found = [
        f"model.{name} must be at least 1, seen {size}." for name, size in sizes.items() if size < 1
    ]
    found += [
        f"model.{name} must be at most {MAX_SIZE:,}, seen {size}."
        for name, size in sizes.items()
        if size > MAX_SIZE
    ]
    numbers = {"norm.eps": config.norm.eps, "position.rope.theta": config.position.rope.theta}
    if config.attention.scale is not None:
        numbers["attention.scale"] = config.attention.scale
    found += [
        f"model.{name} must be a positive number, seen {value}."
        for name, value in numbers.items()
        if not 0 < value < math.inf
    ]
    if (
        min(
            config.embedding.num_segments,
            config.attention.num_global_tokens,
            config.position.offset,
        )
        < 0
    ):
        found.append(
            "model.embedding.num_segments, model.attention.num_global_tokens and "
            "model.position.offset count."
        )
    probabilities = {
        "dropout": config.dropout,
        "attention.dropout": config.attention.dropout,
        "feedforward.dropout": config.feedforward.dropout,
        "embedding.dropout": config.embedding.dropout or 0.0,
        "layer_drop": config.layer_drop,
    }
    found += [
        f"model.{name} is a probability below 1, seen {value}."
        for name, value in probabilities.items()
        if not 0.0 <= value < 1.0
    ]
    if config.pad_id is not None and not 0 <= config.pad_id < max(config.vocab_size, 1):
        found.append(
            f"model.pad_id must be an id below model.vocab_size = {config.vocab_size}, "
            f"seen {config.pad_id}."
        )
    return found


def attention_problems(config: TransformerConfig) -> list[str]:
    """Heads that do not divide up."""
    attention = config.attention
    found: list[str] = []
    if min(attention.num_heads, attention.key_value_heads(), config.d_model) < 1:
        return found
    if attention.head_size is None and config.d_model % attention.num_heads:
        found.append(
            f"model.d_model = {config.d_model} must be a multiple of model.attention.num_heads = "
            f"{attention.num_heads}; change one, or set model.attention.head_size."
        )
    if attention.num_heads % attention.key_value_heads():
        found.append(
            f"model.attention.num_heads = {attention.num_heads} must be a multiple of "
            f"model.attention.num_key_value_heads = {attention.num_key_value_heads}."
        )
    return found


def position_problems(config: TransformerConfig) -> list[str]:
    """Positions that need even widths, and stretching that needs numbers."""
    position = config.position
    found = []
    if position.kind == "sinusoidal" and config.d_model % 2:
        found.append(
            f"Sinusoidal positions need an even model.d_model, seen {config.d_model}; "
            "make it even or choose another model.position.kind."
        )
    if position.kind == "rope":
        head_size = config.attention.width(config.d_model)
        if head_size % 2 or (head_size < 4 and position.rope.scaling in ("ntk", "dynamic_ntk")):
            found.append(
                f"rope turns pairs, so the head size must be even (at least 4 with ntk), seen "
                f"{head_size}; change model.attention.head_size, num_heads or model.d_model."
            )
        if position.rope.factor < 1.0:
            found.append(
                f"model.position.rope.factor stretches and must be at least 1, "
                f"seen {position.rope.factor}."
            )
        rope = position.rope
        if rope.scaling == "llama3" and not 0 < rope.beta_slow < rope.beta_fast:
            found.append(
                "model.position.rope with scaling llama3 needs beta_slow above 0 and "
                f"beta_fast above beta_slow, seen {rope.beta_slow} and {rope.beta_fast}."
            )
    if position.kind == "relative":
        num_buckets, max_distance = position.relative.num_buckets, position.relative.max_distance
        if num_buckets < 4 or num_buckets % 4 or max_distance <= num_buckets // 2:
            found.append(
                "model.position.relative needs num_buckets a multiple of 4 and max_distance above "
                f"half of it, seen {num_buckets} and {max_distance}."
            )
    return found


def table_problems(config: TransformerConfig) -> list[str]:
    """Token tables that cannot be shared, or whose gradient cannot be sparse."""
    found = []
    sizes_differ = config.output_vocab_size() != config.vocab_size
    if config.family != "encoder_decoder" and sizes_differ:
        found.append(
            f"model.target_vocab_size is for the encoder_decoder family, seen "
            f"{config.target_vocab_size} with family {config.family}; leave it out."
        )
    elif config.tie in ("all", "inputs") and sizes_differ:
        found.append(
            f"model.tie = {config.tie} shares one table, so both vocabularies must have one size, "
            f"seen {config.vocab_size} and {config.target_vocab_size}; train a joint tokenizer or "
            "set model.tie = decoder."
        )
    if config.family == "encoder" and config.tie == "decoder":
        found.append("model.tie = decoder needs a decoder, seen family encoder; use all or none.")
    if config.family != "encoder_decoder" and config.tie == "inputs":
        found.append(
            "model.tie = inputs is for the encoder_decoder family, which has two inputs, seen "
            f"family {config.family}; use all or none."
        )
    if config.embedding.sparse_gradient and config.tie != "none":
        found.append(
            f"model.embedding.sparse_gradient needs untied tables, since the output projection's "
            f"gradient has every row, seen model.tie = {config.tie}; set one of them off."
        )
    if config.pooler and config.family != "encoder":
        found.append(f"model.pooler is for encoders, seen family {config.family}; leave it out.")
    if config.head.kind == "none" and config.family == "encoder_decoder":
        found.append(
            f"model.head.kind = none is for one stack alone, seen family {config.family}; use "
            "linear."
        )
    return found


# Keys that only some values of another key read: key → (the other key, the values that read it).
_READ_BY = {
    "attention.window": ("attention.pattern", ("sliding_window", "dilated")),
    "attention.dilation": ("attention.pattern", ("dilated",)),
    "attention.block_size": ("attention.pattern", ("block_sparse",)),
    "attention.num_global_tokens": (
        "attention.pattern",
        ("sliding_window", "dilated", "block_sparse"),
    ),
    "norm.bias": ("norm.kind", ("layer",)),
    "position.max_length": ("position.kind", ("learned",)),
    "position.offset": ("position.kind", ("learned",)),
    "position.layout": ("position.kind", ("sinusoidal",)),
    "position.rope": ("position.kind", ("rope",)),
    "position.relative": ("position.kind", ("relative",)),
    "position.rope.factor": (
        "position.rope.scaling",
        ("linear", "ntk", "dynamic_ntk", "yarn", "llama3"),
    ),
    "position.rope.original_length": ("position.rope.scaling", ("dynamic_ntk", "yarn", "llama3")),
    "position.rope.beta_fast": ("position.rope.scaling", ("yarn", "llama3")),
    "position.rope.beta_slow": ("position.rope.scaling", ("yarn", "llama3")),
    "position.rope.attention_factor": ("position.rope.scaling", ("yarn",)),
}


def find_unused(config: TransformerConfig) -> list[str]:
    """Keys set away from their default that the other choices leave without effect."""
    default = type(config)()
    return [
        f"model.{key} has no effect with model.{decider} = {_at(config, decider)!r}"
        for key, (decider, readers) in _READ_BY.items()
        if _at(config, decider) not in readers and _at(config, key) != _at(default, key)
    ]


def _at(config: object, dotted: str) -> object:
    """The value of a dotted key."""
    for name in dotted.split("."):
        config = getattr(config, name)
    return config
