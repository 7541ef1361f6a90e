"""The network that a training begins with."""

from __future__ import annotations

from dataclasses import asdict, replace

from gnomon.errors import RecipeError
from gnomon.model import Transformer, TransformerConfig
from gnomon.recipes import flatten


def first_model(
    config: TransformerConfig,
    vocab_size: int,
    target_vocab_size: int | None,
    base: Transformer | None,
) -> Transformer:
    """The network of a recipe, with fresh weights or those of `base`.

    Dropout of elements and layers is the recipe's own also when fine-tuning.

    Args:
        vocab_size, target_vocab_size: as the vocabulary came out, which the recipe cannot know.

    Raises:
        RecipeError: `base` is not the network that the recipe describes.
    """
    config = replace(config, vocab_size=vocab_size, target_vocab_size=target_vocab_size)
    if base is not None:
        _refuse_other_network(config, base.config)
    model = Transformer(config)
    if base is not None:
        model.load_state_dict(base.state_dict())
    return model


def _refuse_other_network(wanted: TransformerConfig, given: TransformerConfig) -> None:
    there, here = flatten(asdict(given)), flatten(asdict(wanted))
    changes = [
        f"model.{key}: {there[key]!r} → {here[key]!r}"
        for key in here
        if here[key] != there[key] and not key.endswith(("dropout", "layer_drop"))
    ]
    if changes:
        listing = "\n    ".join(changes)
        raise RecipeError(
            "fine-tuning keeps the network it starts from",
            seen=f"the recipe's [model] differs (model → recipe):\n    {listing}",
            mend="use the recipe that the model was trained with (recipe.toml in its run), or set "
            "these keys to the model's values with --set",
        )
