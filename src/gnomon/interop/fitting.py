"""Which architecture says what a configuration of ours says, and what is in the way of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from gnomon.errors import ModelError
from gnomon.interop import label_heads
from gnomon.interop.architecture import Architecture
from gnomon.interop.keys import Keys
from gnomon.interop.label_heads import Labelling, head_named, read_labelling, write_labelling
from gnomon.interop.parts import Parts
from gnomon.interop.registry import ARCHITECTURES
from gnomon.model import TransformerConfig
from gnomon.model.io import CONFIG_FILE
from gnomon.model.rope import without_ntk
from gnomon.tasks.classifier_folder import ClassifierSettings

AS_OTHERS = ("xlm-roberta", "camembert", "mt5")  # as roberta and T5 1.1, but for their tokenizers

_OTHERS = f"architectures: {', '.join(ARCHITECTURES)}; see docs/how-to/hugging-face.md"


@dataclass(frozen=True)
class Fit:
    """A config.json that says all of a model of ours.

    Attributes:
        architecture: whose.
        keys: its content.
        labelling: the class with labels, of a classifier.
    """

    architecture: Architecture
    keys: dict[str, Any]
    labelling: Labelling | None = None


def changed(
    architecture: Architecture,
    config: TransformerConfig,
    settings: ClassifierSettings | None,
    original: Mapping[str, Any],
) -> Fit:
    """The config.json that came, with those keys changed that the model was changed in.

    Raises:
        ModelError: the architecture does not compute what the model does by now.
    """
    labelling = None
    if settings is not None:
        head = head_named(architecture.label_heads, Keys(original, CONFIG_FILE))
        assert head is not None, "it was taken in as such a class"
        labelling = label_heads.labelling_of(head, settings)
    different: list[str] = []
    for theirs in _versions(architecture, config, labelling, settings, original):
        keys = Keys(theirs, CONFIG_FILE, ignored=list(theirs))
        try:
            different = _in_the_way(architecture, keys, config, labelling)
            if labelling is not None:
                different += label_heads.in_the_way(labelling)
                again = read_labelling(labelling.head, keys, config)
                if (again.labels, again.kind) != (labelling.labels, labelling.kind):
                    different.append("its labels")
        except ModelError as error:
            different = [str(error.seen)]
        if not different:
            return Fit(architecture, theirs, labelling)
    raise ModelError(
        "a model that was taken in is exported as what it was",
        seen=f"it was changed since; {architecture.model_type} has not: {'; '.join(different)}",
        mend="export the model as it was before the change",
    )


def _versions(
    architecture: Architecture,
    config: TransformerConfig,
    labelling: Labelling | None,
    settings: ClassifierSettings | None,
    original: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """A config.json as it came, and with what the model says now."""
    yield dict(original)
    labels = {} if labelling is None else write_labelling(labelling, settings)
    yield {**original, **architecture.write(config), **labels}


def _in_the_way(
    architecture: Architecture,
    keys: Keys,
    config: TransformerConfig,
    labelling: Labelling | None,
) -> list[str]:
    """What a config.json of this architecture does not say of `config`; empty: it says all.

    Raises:
        ModelError: it describes no model.
    """
    to = Parts(config, architecture.prefix)
    try:
        architecture.parts(to)
        fits = to.fits
    except (AssertionError, AttributeError):  # a module that ours has not
        fits = False
    names = {name for part in to.found for name in part.theirs}
    theirs = architecture.read(keys, names)
    if labelling is not None:
        theirs = theirs.without_head()
    different = differences(normal(config), normal(theirs))
    return different if different or fits else ["some of its weights"]


def ntk_as_theta(config: TransformerConfig) -> TransformerConfig:
    """NTK scaling is a larger theta, which is how it is written there."""
    if config.position.kind != "rope":
        return config
    rope = without_ntk(config.position.rope, config.attention.width(config.d_model))
    return replace(config, position=replace(config.position, rope=rope))


def fitting(config: TransformerConfig, settings: ClassifierSettings | None) -> Fit:
    """The first architecture whose config.json can say what `config` says.

    Args:
        config: of the network.
        settings: of a classifier; None: it is none.

    Raises:
        ModelError: there is none; the nearest one and what is in its way are named.
    """
    nearest: tuple[list[str], str, str] | None = None  # what is in the way, of whom, and the mend
    for architecture in ARCHITECTURES.values():
        if architecture.model_type in AS_OTHERS:
            continue
        for labelling, name in _classes(architecture, config, settings):
            try:
                theirs = architecture.write(config)
                keys = Keys(theirs, CONFIG_FILE)
                different = _in_the_way(architecture, keys, config, labelling)
            except (KeyError, ModelError):
                continue  # it has no words for this model at all
            mend = _OTHERS
            if labelling is not None:
                if not different:  # nothing but what stands over the network
                    mend = f"train it with what is there: {label_heads.to_train_with(labelling)}"
                different += label_heads.in_the_way(labelling)
            if not different:
                theirs |= {"model_type": architecture.model_type, "architectures": [name]}
                if labelling is not None:
                    theirs |= write_labelling(labelling, settings)
                return Fit(architecture, theirs, labelling)
            if nearest is None or len(different) < len(nearest[0]):
                whose = architecture.model_type if labelling is None else name
                nearest = (different, whose, mend)
    seen, mend = "no architecture has such a model", _OTHERS
    if nearest is not None:
        different, whose, mend = nearest
        seen = f"the nearest, {whose}, has not: {'; '.join(different)}"
    raise ModelError(
        "a model is exported as an architecture that computes the same", seen=seen, mend=mend
    )


def _classes(
    architecture: Architecture, config: TransformerConfig, settings: ClassifierSettings | None
) -> Iterator[tuple[Labelling | None, str]]:
    """What the model could be there: a class with labels, or one of the two without."""
    if settings is None:
        with_head, bare = architecture.classes
        yield None, bare if config.head.kind == "none" else with_head
        return
    for head in architecture.label_heads:
        if (labelling := label_heads.labelling_of(head, settings)) is not None:
            yield labelling, head.name


def normal(config: TransformerConfig) -> TransformerConfig:
    """The same model with defaults filled in and keys without effect at their defaults.

    Dropout is of training: it is written where an architecture has a key for it, and in nobody's
    way where it has none.
    """
    attention, default = config.attention, TransformerConfig()
    position = config.position
    attention = replace(
        attention,
        head_size=attention.width(config.d_model),
        num_key_value_heads=attention.key_value_heads(),
        window=attention.window if attention.pattern == "sliding_window" else 0,
        num_global_tokens=0 if attention.pattern == "full" else attention.num_global_tokens,
        dilation=attention.dilation if attention.pattern == "dilated" else 0,
        block_size=attention.block_size if attention.pattern == "block_sparse" else 0,
        dropout=0.0,
    )
    if position.kind != "learned":
        position = replace(position, max_length=default.position.max_length)
    if position.kind != "rope":
        position = replace(position, rope=default.position.rope)
    if position.kind != "relative":
        position = replace(position, relative=default.position.relative)
    if position.kind != "sinusoidal":
        position = replace(position, layout="interleaved")
    embedding = replace(config.embedding, dropout=None, sparse_gradient=False)
    target = config.target_vocab_size
    tie = config.tie
    if tie == "decoder" and config.family == "decoder":
        tie = "all"
    if config.head.kind == "none":
        tie = "all"
    return replace(
        config,
        attention=attention,
        feedforward=replace(config.feedforward, dropout=0.0),
        position=position,
        embedding=embedding,
        target_vocab_size=config.vocab_size if target is None else target,
        norm=replace(config.norm, bias=config.norm.bias or config.norm.kind == "rms"),
        dropout=0.0,
        layer_drop=0.0,
        tie=tie,
        num_encoder_layers=config.num_encoder_layers if config.has_encoder() else 0,
        num_decoder_layers=config.num_decoder_layers if config.has_decoder() else 0,
    )


def differences(a: Any, b: Any, prefix: str = "model.") -> list[str]:
    """Keys in which two configurations differ, with both values."""
    found = []
    for field in fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if is_dataclass(left) and is_dataclass(right):
            found += differences(left, right, f"{prefix}{field.name}.")
        elif left != right:
            found.append(f"{prefix}{field.name} = {left!r} (there: {right!r})")
    return found
